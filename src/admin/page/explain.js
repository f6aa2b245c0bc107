import { el, failure, fill, heading } from "./elements.js";

/** Why a request was refused, by its id. */
export function explainView({ api, id }) {
  const content = el("div", { role: "status" });
  const explain = async (event) => {
    event.preventDefault();
    const wanted = input.value.trim();
    if (wanted === "") return;
    try {
      const told = await api.get(`/api/explain/${encodeURIComponent(wanted)}`);
      fill(content, explanation(told));
    } catch (error) {
      fill(content, failure(error));
    }
  };
  const input = el("input", {
    type: "text",
    id: "request-id",
    value: id ?? "",
    autocomplete: "off",
    spellcheck: "false",
    required: true,
  });
  const form = el(
    "form",
    { class: "search", onsubmit: explain },
    el("label", { for: "request-id" }, "Request id"),
    input,
    el("button", { type: "submit", class: "primary" }, "Explain"),
  );
  return {
    element: el(
      "div",
      {},
      heading(
        "Explain",
        "Why a request was refused: its id is in X-Request-Id of the answer, and in the log.",
      ),
      form,
      content,
    ),
  };
}

function explanation(told) {
  const pairs = Object.entries(told).flatMap(([name, value]) => [
    el("dt", {}, name),
    el(
      "dd",
      {},
      typeof value === "object" && value !== null
        ? el("pre", { tabindex: "0" }, JSON.stringify(value, undefined, 2))
        : String(value),
    ),
  ]);
  return el("dl", { class: "settings" }, ...pairs);
}
