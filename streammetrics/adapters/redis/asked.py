"""A question whose answer is not waited for: it is sent at once, and read when it is wanted, most likely from what has arrived since.

One thread asks and reads, so that nobody waits for Python's lock in between, which another thread would have to get several times.
"""

from __future__ import annotations

from typing import Any

from redis.exceptions import RedisError, TimeoutError

from streammetrics.adapters.redis.client import Client, server_of
from streammetrics.adapters.redis.transaction import Command


class Asked:
    """One command about one key, on its way. Raises what the client raises when it cannot be sent.

    The answer is to be read, wanted or not, before anything else is asked so: until then a connection is held.
    """

    def __init__(self, client: Client, key: str, command: Command) -> None:
        self._pool: Any = server_of(client, key).connection_pool
        connection: Any = self._pool.get_connection()
        self._connection: Any = connection
        self._told: Any = None
        try:
            connection.send_packed_command(connection.pack_command(*command), check_health=False)
        except BaseException:
            self._let_go(broken=True)
            raise

    def answer(self) -> Any:
        """The answer, waited for at most as long as any; None where it was lost: then it is to be asked in the usual way.

        Raises TimeoutError where it does not come, for nobody should wait for it twice.
        """
        if self._connection is not None:
            broken = True
            try:
                self._told = self._connection.read_response()
                broken = False
            except TimeoutError:
                raise
            except (RedisError, OSError):
                return None
            finally:
                self._let_go(broken)
        return self._told

    def _let_go(self, broken: bool) -> None:
        connection, self._connection = self._connection, None
        if broken:
            connection.disconnect()
        self._pool.release(connection)
