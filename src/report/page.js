// SPDX-License-Identifier: Apache-2.0
// Sorts and filters tables, chooses a heat map's grid, copies commands, switches light and dark.
// Everything else is there without it.
"use strict";
(function () {
  const each = (selector, act) => document.querySelectorAll(selector).forEach(act);
  const root = document.documentElement;

  // ------------------------------------------------------------------ light and dark
  const system = matchMedia("(prefers-color-scheme: dark)");
  const kept = () => { try { return localStorage.getItem("plumb-theme"); } catch { return null; } };
  const keep = (word) => { try { localStorage.setItem("plumb-theme", word); } catch { /* a file */ } };
  let theme = kept() || "auto";
  const show = () => {
    root.dataset.theme = theme === "auto" ? (system.matches ? "dark" : "light") : theme;
    each("#theme", (button) => { button.textContent = "Theme: " + theme; });
  };
  each("#theme", (button) => button.addEventListener("click", () => {
    theme = { auto: "light", light: "dark", dark: "auto" }[theme];
    keep(theme);
    show();
  }));
  system.addEventListener("change", show);
  let before = null;
  addEventListener("beforeprint", () => { before = root.dataset.theme; root.dataset.theme = "light"; });
  addEventListener("afterprint", () => { root.dataset.theme = before || "light"; });
  show();

  // ------------------------------------------------------------------ tables
  const value = (row, column) => {
    const cell = row.cells[column];
    if (cell.dataset.v !== undefined) return cell.dataset.v === "" ? null : Number(cell.dataset.v);
    return cell.textContent === "-" ? null : cell.textContent;
  };
  // What is unknown comes last, whichever way is sorted.
  const compare = (a, b, sign) => {
    if (a === null || b === null) return (a === null) - (b === null);
    if (typeof a === "number" && typeof b === "number") return sign * (a - b);
    return sign * String(a).localeCompare(String(b), undefined, { numeric: true });
  };
  const sort = (head) => {
    const table = head.closest("table"), body = table.tBodies[0];
    const up = head.getAttribute("aria-sort") !== "ascending";
    const rows = Array.from(body.rows), column = head.cellIndex;
    const keyed = rows.map((row) => [value(row, column), row]);
    keyed.sort((a, b) => compare(a[0], b[0], up ? 1 : -1));
    table.querySelectorAll("th[aria-sort]").forEach((other) => other.removeAttribute("aria-sort"));
    head.setAttribute("aria-sort", up ? "ascending" : "descending");
    body.append(...keyed.map((pair) => pair[1]));
  };
  each("thead th button", (button) =>
    button.addEventListener("click", () => sort(button.closest("th"))));

  each("input[data-filter]", (input) => {
    const table = document.getElementById(input.dataset.filter);
    const output = input.parentElement.parentElement.querySelector("output");
    let texts = null;
    input.addEventListener("input", () => {
      texts = texts || Array.from(table.tBodies[0].rows, (row) =>
        [row, Array.from(row.cells, (cell) => cell.textContent.toLowerCase()).join(" ")]);
      const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
      let shown = 0;
      texts.forEach(([row, text]) => {
        const fits = words.every((word) => text.includes(word));
        row.classList.toggle("hidden", !fits);
        shown += fits;
      });
      output.textContent = words.length ? shown + " of " + texts.length + " rows" : "";
    });
  });

  // ------------------------------------------------------------------ heat maps
  each("figure[data-heat]", (figure) => {
    const [series, against] = figure.querySelectorAll("select");
    const choose = () => {
      const key = series.value + "-" + (against && against.value !== series.value ? against.value : "0");
      figure.querySelectorAll("svg").forEach((svg) => { svg.toggleAttribute("hidden", svg.dataset.grid !== key); });
    };
    [series, against].forEach((select) => select && select.addEventListener("change", choose));
    choose();
  });

  // ------------------------------------------------------------------ commands
  each("button.copy", (button) => button.addEventListener("click", async () => {
    const text = button.parentElement.querySelector("code").textContent;
    try {
      await navigator.clipboard.writeText(text);
      button.textContent = "Copied";
    } catch {
      getSelection().selectAllChildren(button.parentElement.querySelector("code"));
      button.textContent = "Selected";
    }
    setTimeout(() => { button.textContent = "Copy"; }, 1500);
  }));
})();
