"""Schemas are kept within a bound, unknown ids for a minute, and one broken schema does not hold up the others."""

from __future__ import annotations

from typing import Any, cast

from streammetrics.connectors.registry.schemas import UNKNOWN_SECONDS, Schemas
from streammetrics.events.encodings.frames import SchemaRef, framed_ref
from tests.connectors.registry.fakes import CLICK, FakeRegistry, framed
from tests.servers.process import wait_until


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def key_of(number: int) -> tuple[bytes, SchemaRef]:
    key = framed(number, b"")
    return key, framed_ref(key, "schema_id")


def found(schemas: Schemas, number: int) -> None:
    wait_until(lambda: schemas.find(*key_of(number)) is not None, what=f"schema {number} is there")


def test_only_so_many_schemas_are_kept_and_those_used_last() -> None:
    registry = FakeRegistry({str(number): CLICK for number in range(1, 6)})
    schemas = Schemas(cast(Any, registry), schemas_max=3)
    for number in (1, 2, 3, 1, 4, 5):
        found(schemas, number)
    assert schemas.size == 3
    found(schemas, 1)
    assert registry.asked == ["1", "2", "3", "4", "5"]
    found(schemas, 2)
    assert registry.asked[-1] == "2"
    schemas.close()


def test_an_unknown_id_is_asked_for_again_after_a_minute() -> None:
    registry, clock = FakeRegistry({}), Clock()
    schemas = Schemas(cast(Any, registry), clock=clock)
    found(schemas, 7)
    found(schemas, 7)
    assert registry.asked == ["7"]
    registry.schemas["7"] = CLICK
    clock.now = UNKNOWN_SECONDS + 1
    found(schemas, 7)
    reader = schemas.find(*key_of(7))
    assert reader is not None
    assert reader(framed(7)) == b'{"n":1}'
    clock.now *= 10
    found(schemas, 7)
    assert registry.asked == ["7", "7"]
    schemas.close()


def test_one_schema_that_fails_does_not_hold_up_the_others() -> None:
    registry = FakeRegistry({"1": CLICK})
    fetch = registry.fetch

    def broken(ref: SchemaRef) -> Any:
        if ref.id == "2":
            registry.away = True
        try:
            return fetch(ref)
        finally:
            registry.away = False

    registry.fetch = broken  # type: ignore[method-assign]
    schemas = Schemas(cast(Any, registry))
    assert schemas.find(*key_of(2)) is None
    found(schemas, 1)
    assert schemas.find(*key_of(2)) is None
    wait_until(lambda: schemas.wait_of(1).failures > 2, what="the other is tried again")
    schemas.forget(set())
    asked = len(registry.asked)
    found(schemas, 1)
    assert schemas.wait_of(0).failures == 0
    assert len(registry.asked) <= asked + 1
    schemas.close()


def test_a_defect_of_a_compiler_does_not_end_the_thread() -> None:
    registry = FakeRegistry({"1": CLICK})

    def defect(ref: SchemaRef) -> Any:
        if ref.id == "2":
            raise ZeroDivisionError
        return CLICK

    registry.fetch = defect  # type: ignore[method-assign]
    schemas = Schemas(cast(Any, registry))
    found(schemas, 2)
    found(schemas, 1)
    schemas.close()
