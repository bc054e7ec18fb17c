// Terms that explain themselves: a button opens the glossary's text, with a link to the page that says more. The server puts the glossary
// into the page.

import { make } from "./elements.js";

const source = document.getElementById("glossary");
const glossary = new Map(Object.entries(source ? JSON.parse(source.textContent) : {}).map(([term, text]) => [term.toLowerCase(), [term, ...text]]));

/** The button with a question mark that explains a term; null if the glossary does not have it. A metric is found by its name in reports. */
export function help(term) {
  const found = entry(term);
  return found ? make("button", { ...opens(found), class: "help", "aria-label": `What is ${found[0]}?` }, "?") : null;
}

/** A word that is itself the button of its term; plain text of that class if the glossary does not have it. */
export function termButton(term, kind, ...children) {
  const found = entry(term);
  return found ? make("button", { ...opens(found), class: `term ${kind}`.trim(), title: found[1] }, ...children) : make("span", { class: kind }, ...children);
}

const entry = (term) => glossary.get(term.toLowerCase().replaceAll("_", " "));
const opens = ([name]) => ({ type: "button", name: "term", popovertarget: "term", value: name });

/** The link to a runbook of this server. */
export function runbookLink(name) {
  return make("a", { href: `/help/${name}` }, "What to do: the runbook");
}

/** Put the text of a term into the box that its button opens. Return whether the event was for a term. The style sheet places the box. */
export function explain(event) {
  const button = event.target.closest?.("button[name=term]");
  if (!button) return false;
  const box = document.getElementById("term");
  const [term, text, page, address] = glossary.get(button.value.toLowerCase());
  if (box.dataset.term !== term) box.hidePopover(); // the button opens it again
  box.dataset.term = term;
  box.replaceChildren(make("strong", {}, term), make("p", {}, text), ...(address ? [make("p", {}, make("a", { href: address }, page))] : []));
  return true;
}
