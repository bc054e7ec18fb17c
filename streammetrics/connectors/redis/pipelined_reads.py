"""Questions whose answers are not waited for: they are sent at once, and read when wanted, most likely from what has arrived since.

One thread asks and reads, so that nobody waits for Python's lock in between, which another thread would have to get several times.
"""

from __future__ import annotations

from collections import deque
from typing import Any

from redis.exceptions import RedisError, ResponseError, TimeoutError

from streammetrics.connectors.redis.client import Client, server_of
from streammetrics.connectors.redis.transaction import Command


class PendingReply:
    """A command that was sent. `answer` is None while it has not been read, and where it was lost or refused."""

    __slots__ = ("answer",)

    def __init__(self) -> None:
        self.answer: Any = None


class PipelinedReads:
    """Commands on their way to one server, on a connection that is held until all are answered; they are answered in turn.

    When the connection fails all of them are lost: then what was asked is to be asked in the usual way.
    """

    def __init__(self) -> None:
        self._open: deque[PendingReply] = deque()
        self._pool: Any = None
        self._connection: Any = None

    def ask(self, client: Client, key: str, command: Command) -> PendingReply:
        """Send a command about one key. Raises what the client raises when it cannot be sent."""
        pool: Any = server_of(client, key).connection_pool
        if self._open and pool is not self._pool:
            self.read(self._open[-1])
        if self._connection is None:
            self._pool, self._connection = pool, pool.get_connection()
        try:
            self._connection.send_packed_command(self._connection.pack_command(*command), check_health=False)
        except BaseException:
            self._lose()
            raise
        question = PendingReply()
        self._open.append(question)
        return question

    def read(self, question: PendingReply) -> Any:
        """The answer, waited for at most as long as any; None where it was lost or refused.

        Raises TimeoutError where it does not come, for nobody should wait for it twice.
        """
        while question in self._open:
            try:
                answer = self._connection.read_response()
            except ResponseError:  # a refusal, after which the other answers come all the same
                answer = None
            except BaseException as error:
                self._lose()
                if isinstance(error, TimeoutError) or not isinstance(error, (RedisError, OSError)):
                    raise
                return None
            self._open.popleft().answer = answer
        if not self._open:
            self._let_go()
        return question.answer

    def _lose(self) -> None:
        self._open.clear()
        self._connection.disconnect()
        self._let_go()

    def _let_go(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            self._pool.release(connection)
