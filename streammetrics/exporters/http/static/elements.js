// Make and update elements. Names from events become text or values of harmless attributes, never markup.
// All text is sanitized, and a Name is isolated from the text around it.

import { Name, plain } from "./text.js";

const SVG = "http://www.w3.org/2000/svg";
const SVG_TAGS = new Set(["svg", "g", "path", "line", "text", "rect", "circle", "title"]);
const ATTRIBUTES = new Set([
  "id", "class", "role", "tabindex", "hidden", "scope", "colspan", "datetime", "title", "lang", "for", "name", "value", "selected", "type",
  "viewBox", "width", "height", "x", "y", "x1", "x2", "y1", "y2", "cx", "cy", "r", "d", "text-anchor", "stroke-dasharray", "data-label",
  "data-action", "popovertarget",
]);
const TEXT_ONLY = new Set(["option", "text", "title"]); // these cannot contain elements
const KEPT = new Set(["open"]); // attributes that the reader changes

/** Make an element. Null and false attributes are left out, true ones are empty. Children are elements, Names or text. */
export function make(tag, attributes = {}, ...children) {
  const element = SVG_TAGS.has(tag) ? document.createElementNS(SVG, tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    const isLink = name === "href" && /^(#|\/help\/|https:\/\/github\.com\/streammetrics\/)/.test(value); // here, on this server, or a page of the project
    if (!ATTRIBUTES.has(name) && !name.startsWith("aria-") && !isLink) throw new Error(`attribute ${name} is not in ATTRIBUTES`);
    if (value !== null && value !== undefined && value !== false) element.setAttribute(name, value === true ? "" : isText(name) ? plain(value) : String(value));
  }
  element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false).map((child) => asNode(tag, child)));
  return element;
}

function isText(attribute) {
  return attribute === "title" || attribute.startsWith("aria-");
}

function asNode(tag, child) {
  if (child instanceof Node) return child;
  return child instanceof Name && !TEXT_ONLY.has(tag) ? make("bdi", {}, child.text) : plain(child);
}

/** Update `old` to equal `fresh` with few changes, so that focus, selection, scrolling and open details stay. The content of a plot stays too. */
export function patch(old, fresh) {
  if (old.nodeName !== fresh.nodeName || old.id !== fresh.id) {
    old.replaceWith(fresh);
  } else if (old.nodeType === Node.TEXT_NODE) {
    if (old.data !== fresh.data) old.data = fresh.data;
  } else {
    for (const { name } of [...old.attributes]) if (!fresh.hasAttribute(name) && !KEPT.has(name)) old.removeAttribute(name);
    for (const { name, value } of fresh.attributes) if (old.getAttribute(name) !== value) old.setAttribute(name, value);
    if (!old.classList.contains("plot")) patchChildren(old, [...fresh.childNodes]);
  }
}

/** Update the children of `old`. Children with an id are matched by id, others by position. */
export function patchChildren(old, fresh) {
  const before = [...old.childNodes];
  const known = new Map(before.filter((node) => node.id).map((node) => [node.id, node]));
  const others = before.filter((node) => !node.id);
  const partners = fresh.map((node) => (node.id ? known.get(node.id) : others.shift()));
  const kept = new Set(partners);
  before.filter((node) => !kept.has(node)).forEach((node) => node.remove());
  let place = old.firstChild;
  fresh.forEach((node, index) => {
    const partner = partners[index];
    if (partner && partner === place) place = place.nextSibling; // do not move it: moving loses the focus
    else old.insertBefore(partner ?? node, place);
    if (partner) patch(partner, node);
  });
}

/** Whether the reader has opened this part. */
export function isOpen(id) {
  return document.getElementById(id)?.open === true;
}

/** Make a folded part. Its content is made only while it is open. */
export function folded(id, summary, content) {
  return make("details", { id }, make("summary", {}, summary), isOpen(id) ? content() : []);
}

/** Make a table that scrolls sideways when it is too wide. Heads and cells are text, elements or lists of both. The first cell of a row is
 * its head. `labels` name the cells where the style sheet lays out rows as blocks, without heads. `above` are heads of several columns,
 * each with their number. */
export function table(caption, heads, rows, kind = "", labels = [], above = []) {
  // The roles keep the table a table where the style sheet lays out its rows as blocks.
  const head = make("tr", { role: "row" }, heads.map((each) => make("th", { scope: "col", role: "columnheader" }, each)));
  const groups = above.length ? make("tr", { role: "row", class: "above" }, above.map(([text, columns = 1]) =>
    (text ? make("th", { scope: "colgroup", role: "columnheader", colspan: columns }, text) : make("td", { role: "cell", colspan: columns })))) : null;
  const body = rows.map((cells) => make("tr", { role: "row" }, cells.map((cell, at) =>
    make(at ? "td" : "th", at ? { role: "cell", "data-label": labels[at] } : { scope: "row", role: "rowheader" }, cell))));
  return make("div", { class: `wide ${kind}`.trim(), tabindex: "0", role: "group", "aria-label": caption },
    make("table", { role: "table" }, make("caption", {}, caption), make("thead", { role: "rowgroup" }, groups, head), make("tbody", { role: "rowgroup" }, body)));
}

export function fine(...children) {
  return make("span", { class: "fine" }, ...children);
}
