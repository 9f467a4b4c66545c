// Which methods are shown, for all tables and charts of the page together.

/** The methods that are shown, and a legend whose buttons choose them. */
function newMethods(looks) {
  const labels = Object.keys(looks);
  const hidden = new Set();
  const listeners = [];
  const buttons = [];

  function changed() {
    for (const [label, button] of buttons) button.setAttribute("aria-pressed", String(!hidden.has(label)));
    for (const listener of listeners) listener();
  }

  function toggle(label) {
    if (!hidden.delete(label)) hidden.add(label);
    changed();
  }

  function button(text, pressed, ...before) {
    return element("button", { type: "button", "aria-pressed": pressed }, ...before, text);
  }

  function legend(box) {
    for (const label of labels) {
      const one = button(label, "true", sample(looks[label]));
      one.addEventListener("click", () => toggle(label));
      buttons.push([label, one]);
      box.append(one);
    }
    const all = button("Show all", null);
    all.addEventListener("click", () => {
      hidden.clear();
      changed();
    });
    const none = button("Hide all", null);
    none.addEventListener("click", () => {
      for (const label of labels) hidden.add(label);
      changed();
    });
    all.classList.add("screen-only");
    none.classList.add("screen-only");
    if (labels.length > 2) box.append(all, none);
  }

  for (const box of document.querySelectorAll("[data-legend]")) legend(box);
  return {
    isShown: (label) => !hidden.has(label),
    look: (label) => looks[label],
    whenChanged: (listener) => listeners.push(listener),
  };
}
