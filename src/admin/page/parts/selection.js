/** The longest time that a part waits: what it shows is out of date until then. */
const SELECTED_MS = 10_000;
/** The drawings that wait until no text of their part is selected, by part. */
const waiting = new Map();

/**
 * Draws a part as soon as no text in it is selected, because the selection would be lost before it is
 * copied. Returns whether it was drawn at once. A later drawing of the part takes the place of one that waits.
 */
export function whenUnselected(part, draw) {
  if (!isSelected(part)) {
    draw();
    return true;
  }
  const { timer = setTimeout(() => waiting.get(part).draw(), SELECTED_MS) } =
    waiting.get(part) ?? {};
  waiting.set(part, { draw, timer });
  return false;
}

/** Drops a drawing that waits, because the part shows something newer. */
export function stopWaiting(part) {
  clearTimeout(waiting.get(part)?.timer);
  waiting.delete(part);
}

function isSelected(part) {
  const selection = getSelection();
  return !selection.isCollapsed && selection.containsNode(part, true);
}

/** Has to be called once, when the page is loaded. */
export function watchSelection() {
  document.addEventListener("selectionchange", () => {
    for (const [part, { draw }] of waiting) if (!isSelected(part)) draw();
  });
  // A button, a link and a choice leave the selection, and their effect is to be shown at once.
  for (const kind of ["click", "change"]) {
    const release = ({ target }) => {
      if (target.closest("a[href], button, select, summary")) getSelection().removeAllRanges();
    };
    document.addEventListener(kind, release, true);
  }
}
