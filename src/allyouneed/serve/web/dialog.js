// Dialogs: the attention of a sentence, and the token.

import { element } from "./explorer/elements.js";
import { explore } from "./explorer/explorer.js";

function dialogOf(title, ...children) {
  const closing = element("button", { type: "button", class: "quiet", "aria-label": "Close" }, "✕");
  const dialog = element("dialog", { "aria-label": title }, element("header", {}, element("h2", {}, title), closing), ...children);
  closing.addEventListener("click", () => dialog.close());
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
  return dialog;
}

/** Show the attention that `load()` fetches. */
export async function showAttention(load) {
  const place = element("div", { class: "place" }, element("p", { class: "hint" }, "Looking into the model …"));
  const dialog = dialogOf("Attention", place);
  dialog.classList.add("wide");
  let remove = null;
  dialog.addEventListener("close", () => remove?.());
  try {
    const contents = await load();
    const within = element("div");
    place.replaceChildren(within);
    remove = await explore(within, contents);
    if (!dialog.open) remove();
  } catch (error) {
    place.replaceChildren(element("p", { class: "hint", role: "alert" }, error.message));
  }
}

/** Ask for the token; resolves with it when it is given. */
export function askForToken(message) {
  const field = element("input", { type: "password", autocomplete: "off", "aria-label": "Token", required: true });
  const enter = element("button", { class: "main" }, "Continue");
  const form = element("form", { method: "dialog" }, element("p", {}, message), field, enter);
  const dialog = dialogOf("This server needs a token", form);
  return new Promise((resolve, reject) => {
    form.addEventListener("submit", () => resolve(field.value));
    dialog.addEventListener("close", () => reject(new Error("No token was given. Load the page again to enter it.")));
    field.focus();
  });
}
