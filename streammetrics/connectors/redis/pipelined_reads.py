"""Sends reads without waiting for the replies. A reply is read later, when it most likely has arrived.

One thread sends and reads. A second thread would have to get Python's global lock several times per read.
"""

from __future__ import annotations

from collections import deque
from typing import Any

from redis.exceptions import RedisError, ResponseError, TimeoutError

from streammetrics.connectors.redis.client import Client, server_of
from streammetrics.connectors.redis.transaction import Command


class PendingReply:
    """A command that was sent. `value` is None until its reply is read, and if the reply is lost or an error."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value: Any = None


class PipelinedReads:
    """Commands on their way to one server. Their connection is kept until all replies are read, in order.

    When the connection fails, all replies are lost, and the caller must read in the usual way.
    """

    def __init__(self) -> None:
        self._pending: deque[PendingReply] = deque()
        self._pool: Any = None
        self._connection: Any = None

    def send(self, client: Client, key: str, command: Command) -> PendingReply:
        """Send a command that reads one key. Raises the client's error when it cannot be sent."""
        pool: Any = server_of(client, key).connection_pool
        if self._pending and pool is not self._pool:
            self.read(self._pending[-1])
        if self._connection is None:
            self._pool, self._connection = pool, pool.get_connection()
        try:
            self._connection.send_packed_command(self._connection.pack_command(*command), check_health=False)
        except BaseException:
            self._disconnect()
            raise
        reply = PendingReply()
        self._pending.append(reply)
        return reply

    def read(self, reply: PendingReply) -> Any:
        """Return the value of a reply, or None if it is lost or an error.

        Raises TimeoutError if it does not arrive in time, so that the caller does not wait for it again.
        """
        while reply in self._pending:
            try:
                value = self._connection.read_response()
            except ResponseError:  # the other replies still arrive
                value = None
            except BaseException as error:
                self._disconnect()
                if isinstance(error, TimeoutError) or not isinstance(error, (RedisError, OSError)):
                    raise
                return None
            self._pending.popleft().value = value
        if not self._pending:
            self._release()
        return reply.value

    def _disconnect(self) -> None:
        self._pending.clear()
        self._connection.disconnect()
        self._release()

    def _release(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            self._pool.release(connection)
