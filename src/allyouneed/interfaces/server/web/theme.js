// Light and dark: as the system, until the user chooses; the choice is kept.

const KEPT = "allyouneed-theme";
const system = matchMedia("(prefers-color-scheme: dark)");

/** Site data, where the browser allows it. */
const kept = {
  get() {
    try {
      return localStorage.getItem(KEPT);
    } catch {
      return null;
    }
  },
  set(theme) {
    try {
      localStorage.setItem(KEPT, theme);
    } catch {
      // chosen until the page is left
    }
  },
};

/** Show the theme, and let a button change it. */
export function useTheme(button) {
  let chosen = null;
  const show = () => {
    const theme = chosen ?? kept.get() ?? (system.matches ? "dark" : "light");
    document.documentElement.dataset.theme = theme;
    const other = theme === "dark" ? "light" : "dark";
    button.textContent = theme === "dark" ? "☀" : "☾";
    button.setAttribute("aria-label", `Change to ${other} colours`);
    button.title = `Change to ${other} colours`;
    return other;
  };
  let other = show();
  button.addEventListener("click", () => {
    chosen = other;
    kept.set(other);
    other = show();
  });
  system.addEventListener("change", () => { other = show(); });
}
