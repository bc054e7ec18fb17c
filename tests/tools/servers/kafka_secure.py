"""A protected Kafka broker: TLS, SASL with and without TLS, and an authorizer that allows only what an ACL grants.

The test itself uses the plaintext listener to create topics and ACLs. Its clients are super users.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from kafka.admin import ACL, ACLOperation, ACLPermissionType, ResourcePattern, ResourceType

from tests.tools.servers.certificates import Authority
from tests.tools.servers.kafka import KafkaBroker
from tests.tools.servers.process import HOST, free_port

MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
_MODULES = {"PLAIN": "plain.PlainLoginModule", "SCRAM-SHA-256": "scram.ScramLoginModule", "SCRAM-SHA-512": "scram.ScramLoginModule"}
_SASL = ("sasl_ssl", "sasl_plaintext")


class SecureKafkaBroker(KafkaBroker):
    """One broker with four listeners. On SSL the common name of the client certificate is the user. `users` log in with SASL."""

    def __init__(self, authority: Authority, users: Mapping[str, str]) -> None:
        super().__init__(scram=users)
        self.ports = {"PLAINTEXT": self.port, **{name: free_port() for name in ("SSL", "SASL_SSL", "SASL_PLAINTEXT")}}
        controller = self.properties["listeners"].rpartition(",")[2]
        listeners = ",".join(f"{name}://{HOST}:{port}" for name, port in self.ports.items())
        self.properties |= {
            "listeners": f"{listeners},{controller}",
            "advertised.listeners": listeners,
            "listener.security.protocol.map": ",".join(["CONTROLLER:PLAINTEXT", *(f"{name}:{name}" for name in self.ports)]),
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(authority.server("broker").bothfile),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(authority.cafile),
            "listener.name.ssl.ssl.client.auth": "required",
            "ssl.principal.mapping.rules": "RULE:^.*CN=([^,]+).*$/$1/,DEFAULT",
            "sasl.enabled.mechanisms": ",".join(MECHANISMS),
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:ANONYMOUS",
        }
        for listener in _SASL:
            for mechanism in MECHANISMS:
                words = "".join(f' user_{name}="{word}"' for name, word in users.items()) if mechanism == "PLAIN" else ""
                module = f"org.apache.kafka.common.security.{_MODULES[mechanism]} required{words};"
                self.properties[f"listener.name.{listener}.{mechanism.lower()}.sasl.jaas.config"] = module

    def bootstrap_of(self, protocol: str) -> str:
        """Return the bootstrap_servers for a protocol."""
        return f"{HOST}:{self.ports[protocol]}"

    def allow(self, user: str, kind: ResourceType, name: str, *operations: ACLOperation) -> None:
        """Grant a user operations on one resource."""
        self.allow_all(user, {(kind, name): operations})

    def allow_all(self, user: str, rights: Mapping[tuple[ResourceType, str], Iterable[ACLOperation]]) -> None:
        """Grant a user operations on several resources, in one request."""
        acls = [acl for (kind, name), operations in rights.items() for acl in _acls(user, kind, name, operations)]
        with self.admin() as admin:
            done = admin.create_acls(acls)
        assert not done["failed"], done

    def forbid(self, user: str, kind: ResourceType, name: str, *operations: ACLOperation) -> None:
        """Revoke operations from a user."""
        with self.admin() as admin:
            admin.delete_acls(list(_acls(user, kind, name, operations)))


def _acls(user: str, kind: ResourceType, name: str, operations: Iterable[ACLOperation]) -> Iterable[Any]:
    for operation in operations:
        yield ACL(
            principal=f"User:{user}",
            host="*",
            operation=operation,
            permission_type=ACLPermissionType.ALLOW,
            resource_pattern=ResourcePattern(kind, name),
        )
