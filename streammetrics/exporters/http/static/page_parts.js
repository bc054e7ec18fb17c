// How elements are made and brought up to date. What events name becomes text or the value of a harmless attribute, never markup.
// Whatever is read is fit to be drawn, and a Name is drawn apart from the words around it.

import { Name, plain } from "./page_words.js";

const SVG = "http://www.w3.org/2000/svg";
const SVG_TAGS = new Set(["svg", "g", "path", "line", "text", "rect", "circle", "title"]);
const ATTRIBUTES = new Set([
  "id", "class", "role", "tabindex", "hidden", "scope", "colspan", "datetime", "title", "lang", "for", "name", "value", "selected", "type",
  "viewBox", "width", "height", "x", "y", "x1", "x2", "y1", "y2", "cx", "cy", "r", "d", "text-anchor", "data-action",
]);
const TEXT_ONLY = new Set(["option", "text", "title"]); // no element can be in them
const KEPT = new Set(["open"]); // what the reader did to an element

/** An element; attributes that are null or false are left out, true ones are empty, children are elements, Names or text. */
export function make(tag, attributes = {}, ...children) {
  const element = SVG_TAGS.has(tag) ? document.createElementNS(SVG, tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (!ATTRIBUTES.has(name) && !name.startsWith("aria-")) throw new Error(`no attribute of this page: ${name}`);
    if (value !== null && value !== undefined && value !== false) element.setAttribute(name, value === true ? "" : isRead(name) ? plain(value) : String(value));
  }
  element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false).map((child) => drawn(tag, child)));
  return element;
}

function isRead(attribute) {
  return attribute === "title" || attribute.startsWith("aria-");
}

function drawn(tag, child) {
  if (child instanceof Node) return child;
  return child instanceof Name && !TEXT_ONLY.has(tag) ? make("bdi", {}, child.text) : plain(child);
}

/** Make `old` look like `fresh` with as few changes as can be, so that focus, selection, scrolling and open details stay. */
export function patch(old, fresh) {
  if (old.nodeName !== fresh.nodeName || old.id !== fresh.id) {
    old.replaceWith(fresh);
  } else if (old.nodeType === Node.TEXT_NODE) {
    if (old.data !== fresh.data) old.data = fresh.data;
  } else {
    for (const { name } of [...old.attributes]) if (!fresh.hasAttribute(name) && !KEPT.has(name)) old.removeAttribute(name);
    for (const { name, value } of fresh.attributes) if (old.getAttribute(name) !== value) old.setAttribute(name, value);
    patchChildren(old, [...fresh.childNodes]);
  }
}

/** The same for what is inside an element that stays as it is. Who has an id is known by it, the others by their turn. */
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
    if (partner && partner === place) place = place.nextSibling; // stays where it is: what is moved loses the focus
    else old.insertBefore(partner ?? node, place);
    if (partner) patch(partner, node);
  });
}

/** Whether the reader has opened this part. */
export function isOpen(id) {
  return document.getElementById(id)?.open === true;
}

/** A part that is made only while it is open: `content` is called then. */
export function folded(id, summary, content) {
  return make("details", { id }, make("summary", {}, summary), isOpen(id) ? content() : []);
}

/** A table that scrolls in itself where it is too wide. Heads and cells are text, elements or lists of both; the first cell names its row. */
export function table(caption, heads, rows, kind = "") {
  const head = make("tr", {}, heads.map((each) => make("th", { scope: "col" }, each)));
  const body = rows.map((cells) => make("tr", {}, cells.map((cell, at) => make(at ? "td" : "th", at ? {} : { scope: "row" }, cell))));
  return make("div", { class: `wide ${kind}`.trim(), tabindex: "0", role: "region", "aria-label": caption },
    make("table", {}, make("caption", {}, caption), make("thead", {}, head), make("tbody", {}, body)));
}

export function fine(...children) {
  return make("span", { class: "fine" }, ...children);
}
