"""Lines of tab-separated values without a header -> JSON objects, for the presets whose records are such lines. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final, TypeAlias

import msgspec

from streammetrics.errors import MalformedEvent
from streammetrics.events.malformed import malformed, without_traceback
from streammetrics.events.model import Event, EventLimits

ToObject: TypeAlias = Callable[[list[str]], Mapping[str, Any]]
"""Returns the fields of a line from its columns. Raises MalformedEvent."""

_encode = msgspec.json.Encoder().encode
_any = msgspec.json.Decoder().decode

MIND_COLUMNS: Final = ("impression_id", "user_id", "time", "history", "impressions")
_SNOWPLOW = """
    app_id platform etl_tstamp collector_tstamp dvce_created_tstamp event event_id txn_id name_tracker v_tracker v_collector v_etl
    user_id user_ipaddress user_fingerprint domain_userid domain_sessionidx network_userid geo_country geo_region geo_city geo_zipcode
    geo_latitude geo_longitude geo_region_name ip_isp ip_organization ip_domain ip_netspeed page_url page_title page_referrer
    page_urlscheme page_urlhost page_urlport page_urlpath page_urlquery page_urlfragment refr_urlscheme refr_urlhost refr_urlport
    refr_urlpath refr_urlquery refr_urlfragment refr_medium refr_source refr_term mkt_medium mkt_source mkt_term mkt_content mkt_campaign
    contexts se_category se_action se_label se_property se_value unstruct_event tr_orderid tr_affiliation tr_total tr_tax tr_shipping
    tr_city tr_state tr_country ti_orderid ti_sku ti_name ti_category ti_price ti_quantity pp_xoffset_min pp_xoffset_max pp_yoffset_min
    pp_yoffset_max useragent br_name br_family br_version br_type br_renderengine br_lang br_features_pdf br_features_flash
    br_features_java br_features_director br_features_quicktime br_features_realplayer br_features_windowsmedia br_features_gears
    br_features_silverlight br_cookies br_colordepth br_viewwidth br_viewheight os_name os_family os_manufacturer os_timezone dvce_type
    dvce_ismobile dvce_screenwidth dvce_screenheight doc_charset doc_width doc_height tr_currency tr_total_base tr_tax_base
    tr_shipping_base ti_currency ti_price_base base_currency geo_timezone mkt_clickid mkt_network etl_tags dvce_sent_tstamp
    refr_domain_userid refr_device_tstamp derived_contexts domain_sessionid derived_tstamp event_vendor event_name event_format
    event_version event_fingerprint true_tstamp"""
SNOWPLOW_COLUMNS: Final = tuple(_SNOWPLOW.split())
"""The columns of an enriched event, in the order of the Snowplow documentation."""
_SNOWPLOW_ENTITIES: Final = ("contexts", "derived_contexts")
_IGLU = re.compile(r"iglu:([\w.-]+)/([\w-]+)/[\w-]+/([0-9]+)-[0-9]+-[0-9]+", re.ASCII)
_HUMP = re.compile(r"(?<=[^A-Z_])([A-Z])")


def rows_decoder(
    to_object: ToObject, decode: Callable[[bytes | None], Sequence[Event | MalformedEvent]], limits: EventLimits
) -> Callable[[bytes | None], Sequence[Event | MalformedEvent]]:
    """Return a decoder of lines. `decode` decodes the object that a line becomes. JSON objects and empty records go to it as they are.

    >>> rows_decoder(mind_object, lambda record: (record,), EventLimits())(b"1\\tU1\\t11/11/2019 9:05:58 AM\\tN1 N2\\tN3-1 N4-0")
    (b'{"impression_id":"1","user_id":"U1","time":"2019-11-11T09:05:58Z","impressions":["N3","N4"],"clicked":["N3"]}',)
    """

    def read(value: bytes | None) -> Sequence[Event | MalformedEvent]:
        if value is None or len(value) > limits.event_bytes_max or value.lstrip()[:1] in (b"{", b""):
            return decode(value)
        try:
            return decode(_encode(to_object(value.decode().split("\t"))))
        except UnicodeDecodeError:
            return (malformed("bad_json", "a line must be text in UTF-8", value, "send the lines as they were written"),)
        except MalformedEvent as error:
            return (without_traceback(error),)

    return read


def mind_object(cells: list[str]) -> Mapping[str, Any]:
    """Return the fields of one line of behaviors.tsv. `history` is left out. Lists of the test set have no clicks.

    >>> mind_object(["7", "U1", "11/15/2019 12:00:00 PM", "", "N3 N4"])["time"]
    '2019-11-15T12:00:00Z'
    """
    identity, user, time, _, shown = _counted("behaviors.tsv of MIND", cells, MIND_COLUMNS)
    items = [_mind_item(word) for word in shown.split()]
    fields = {"impression_id": identity, "user_id": user, "time": _mind_time(time), "impressions": [item for item, _ in items]}
    clicked = [item for item, is_clicked in items if is_clicked]
    return fields | {"clicked": clicked} if clicked else fields


def _mind_item(word: str) -> tuple[str, bool]:
    item, dash, label = word.rpartition("-")
    if not dash:
        return word, False
    if label not in ("0", "1"):
        raise malformed("bad_value", "an item must be like N123-1 (clicked), N123-0 or N123", word, "send lines of behaviors.tsv")
    return item, label == "1"


def _mind_time(text: str) -> str:
    try:
        return datetime.strptime(text, "%m/%d/%Y %I:%M:%S %p").strftime("%Y-%m-%dT%H:%M:%SZ")
    except ValueError:
        return text


def snowplow_object(cells: list[str]) -> Mapping[str, Any]:
    """Return the fields of an enriched event, as the Analytics SDKs of Snowplow name them. All values but JSON stay texts.

    >>> cells = [""] * 131
    >>> cells[52] = '{"data":[{"schema":"iglu:com.acme/MyShelf/jsonschema/2-0-1","data":{"id":"a"}}]}'
    >>> snowplow_object(cells)
    {'contexts_com_acme_my_shelf_2': [{'id': 'a'}]}
    """
    sent = zip(SNOWPLOW_COLUMNS, _counted("a Snowplow enriched event", cells, SNOWPLOW_COLUMNS), strict=True)
    fields: dict[str, Any] = {}
    for name, cell in sent:
        if not cell:
            continue
        if name in _SNOWPLOW_ENTITIES:
            for entity in _part(name, _json(name, cell), list):
                fields.setdefault(_entity_name("contexts", name, entity), []).append(entity.get("data"))
        elif name == "unstruct_event":
            event = _part(name, _json(name, cell), dict)
            fields[_entity_name(name, name, event)] = event.get("data")
        else:
            fields[name] = cell
    return fields


def _counted(what: str, cells: list[str], columns: Sequence[str]) -> list[str]:
    cells[-1] = cells[-1].removesuffix("\r")
    if len(cells) != len(columns):
        rule = f"a line of {what} must have {len(columns)} columns separated by tabs, and this one has {len(cells)}"
        raise malformed("bad_json", rule, "\t".join(cells[:8]), "send the lines as they were written, or set another events.format")
    return cells


def _json(name: str, cell: str) -> Any:
    try:
        return _any(cell)
    except (msgspec.DecodeError, RecursionError):
        raise malformed("bad_json", f"{name} must be JSON", cell, "send the lines as they were written") from None


def _part(name: str, found: Any, kind: type) -> Any:
    """Return the field `data` of self-describing JSON."""
    data = found.get("data") if isinstance(found, dict) else None
    if not isinstance(data, kind):
        raise malformed("bad_json", f"{name} must be self-describing JSON with data", str(found), "send the lines as they were written")
    return data


def _entity_name(prefix: str, column: str, found: Any) -> str:
    """Return the name of a field: the vendor, the name and the model of a schema."""
    schema = found.get("schema") if isinstance(found, dict) else None
    parts = _IGLU.fullmatch(schema) if isinstance(schema, str) else None
    if parts is None:
        raise malformed("bad_json", f"{column} must name a schema such as iglu:com.acme/shelf/jsonschema/1-0-0", str(schema), "send it")
    vendor, name, model = parts.groups()
    words = _HUMP.sub(r"_\1", name)
    return f"{prefix}_{vendor.replace('.', '_')}_{words}_{model}".lower()


TEXT_ROWS: Final[Mapping[str, ToObject]] = {"mind": mind_object, "snowplow": snowplow_object}
"""The presets whose records are lines of columns."""
