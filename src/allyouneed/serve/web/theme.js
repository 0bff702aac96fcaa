// Light and dark: as the system, until the user chooses; the choice is kept.

import { kept } from "./kept.js";

const chosen = kept(() => localStorage, "allyouneed-theme");
const system = matchMedia("(prefers-color-scheme: dark)");

/** Show the theme, and let a button change it. */
export function useTheme(button) {
  const show = () => {
    const theme = chosen.get() ?? (system.matches ? "dark" : "light");
    document.documentElement.dataset.theme = theme;
    const other = theme === "dark" ? "light" : "dark";
    button.textContent = theme === "dark" ? "☀" : "☾";
    button.setAttribute("aria-label", `Change to ${other} colours`);
    button.title = `Change to ${other} colours`;
    return other;
  };
  let other = show();
  button.addEventListener("click", () => {
    chosen.set(other);
    other = show();
  });
  system.addEventListener("change", () => { other = show(); });
}
