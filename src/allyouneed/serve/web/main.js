// The page: what the server serves decides what it shows.

import { element } from "./explorer/elements.js";
import { ask, token } from "./api.js";
import { Refused } from "./asking.js";
import { askForToken } from "./dialog.js";
import { parserView } from "./parser.js";
import { useTheme } from "./theme.js";
import { translatorView } from "./translator.js";

const content = document.querySelector("#content"), modes = document.querySelector("#modes");

/** What is served; asks for the token until the server takes it. */
async function served() {
  let message = "Ask its operator for it. It is kept until this tab is closed.";
  for (;;) {
    const listed = await ask("/api/models");
    if (!listed.needs_token || listed.models.length) return listed;
    token.set(await askForToken(message));
    message = "The server does not know this token; check it.";
  }
}

function show(views, name) {
  content.replaceChildren(...views[name].nodes);
  for (const button of modes.children) button.setAttribute("aria-pressed", button.textContent === name);
  document.querySelector("h1").textContent = name;
  document.title = name;
  views[name].start();
}

async function begin() {
  const listed = await served();
  const parsers = listed.models.filter(({ task }) => task === "parsing");
  const views = {};
  if (listed.directions.length || listed.models.some((each) => each.languages)) views.Translate = translatorView(listed);
  if (parsers.length) views.Parse = parserView(listed, parsers);
  const names = Object.keys(views);
  modes.hidden = names.length < 2;
  modes.replaceChildren(...names.map((name) => element("button", { type: "button", onclick: () => show(views, name) }, name)));
  show(views, names[0]);
}

content.replaceChildren(element("p", { class: "hint" }, "Loading …"));
useTheme(document.querySelector("#theme"));
begin().catch((error) => {
  const again = element("button", { type: "button", class: "main", onclick: () => location.reload() }, "Try again");
  content.replaceChildren(element("p", { class: "hint", role: "alert" }, error.message), again);
  if (!(error instanceof Refused)) throw error;
});
