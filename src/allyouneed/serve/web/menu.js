// The menu of alternatives for a word.

import { element } from "./explorer/elements.js";

/** A menu under a node, with `items` of `{next, rest}`; calls `choose(item)` or, at last, `close()`. */
export function openMenu(anchor, choose, close) {
  const list = element("div", { class: "menu", role: "menu", "aria-label": "Alternatives" },
    element("p", { class: "hint" }, "Looking for alternatives …"));
  document.body.append(list);
  let isOpen = true;

  function put() {
    const { left, bottom, top } = anchor.getBoundingClientRect();
    const below = innerHeight - bottom > list.offsetHeight + 12 || top < list.offsetHeight;
    list.style.left = `${Math.max(8, Math.min(left, innerWidth - list.offsetWidth - 8)) + scrollX}px`;
    list.style.top = `${(below ? bottom + 6 : top - list.offsetHeight - 6) + scrollY}px`;
  }
  function shut() {
    if (!isOpen) return;
    isOpen = false;
    list.remove();
    removeEventListener("pointerdown", onPointer, true);
    removeEventListener("keydown", onKey, true);
    close();
  }
  function show(items) {
    if (!isOpen) return;
    if (!items.length) {
      list.replaceChildren(element("p", { class: "hint" }, "No other word is likely here."));
      put();
      return;
    }
    list.replaceChildren(...items.map((item) => element("button", {
      type: "button", role: "menuitem", tabindex: -1, onclick: () => { shut(); choose(item); },
    }, element("strong", { dir: "auto" }, item.next), " ", element("span", { dir: "auto" }, item.rest))));
    put();
    list.firstChild.focus();
  }
  function fail(message) {
    if (isOpen) list.replaceChildren(element("p", { class: "hint" }, message));
  }
  const onPointer = (event) => { if (!list.contains(event.target)) shut(); };
  function onKey(event) {
    const items = [...list.querySelectorAll("button")];
    const place = items.indexOf(document.activeElement);
    if (event.key === "Escape" || event.key === "Tab") {
      shut();
      anchor.focus();
    } else if (event.key === "ArrowDown") items[(place + 1) % items.length]?.focus();
    else if (event.key === "ArrowUp") items[(place - 1 + items.length) % items.length]?.focus();
    else return;
    event.preventDefault();
    event.stopPropagation();
  }
  addEventListener("pointerdown", onPointer, true);
  addEventListener("keydown", onKey, true);
  put();
  return { show, fail, shut };
}
