// Terms that explain themselves: a button with a question mark opens the glossary's text. The server puts the glossary into the page.

import { make } from "./elements.js";

const source = document.getElementById("glossary");
const glossary = new Map(Object.entries(source ? JSON.parse(source.textContent) : {}).map(([term, text]) => [term.toLowerCase(), [term, text]]));

/** The button that explains a term; null if the glossary does not have it. A metric is found by its name in reports. */
export function help(term) {
  const known = glossary.get(term.toLowerCase().replaceAll("_", " "));
  return known ? make("button", { type: "button", class: "help", name: "term", popovertarget: "term", value: known[0], "aria-label": `What is ${known[0]}?` }, "?") : null;
}

/** The link to a runbook of this server. */
export function runbookLink(name) {
  return make("a", { href: `/help/${name}` }, "What to do: the runbook");
}

/** Put the text of a term into the box that its button opens. Return whether the event was for a term. The style sheet places the box. */
export function explain(event) {
  const button = event.target.closest?.("button[name=term]");
  if (!button) return false;
  const box = document.getElementById("term");
  const [term, text] = glossary.get(button.value.toLowerCase());
  if (box.dataset.term !== term) box.hidePopover(); // the button opens it again
  box.dataset.term = term;
  box.replaceChildren(make("strong", {}, term), make("p", {}, text));
  return true;
}
