// What the page keeps in the browser, where that allows site data, or else until the page is left.

/** A text that is kept under a name in `storage()`, which is `localStorage` or `sessionStorage`. */
export function kept(storage, name) {
  let given = null;
  return {
    get() {
      try {
        return given ?? storage().getItem(name);
      } catch {
        return null;
      }
    },
    set(text) {
      given = text;
      try {
        storage().setItem(name, text);
      } catch {
        // kept until the page is left
      }
    },
  };
}
