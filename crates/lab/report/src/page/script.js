"use strict";
// Choosing a chart, hiding series, and what is said when something is pointed at.
(function () {
  const hover = document.getElementById("hover");

  function say(text, event) {
    if (!text) { hover.hidden = true; return; }
    hover.textContent = text;
    hover.hidden = false;
    const box = hover.getBoundingClientRect();
    const x = Math.min(event.clientX + 14, innerWidth - box.width - 8);
    const below = event.clientY + 16;
    const y = below + box.height > innerHeight ? event.clientY - box.height - 10 : below;
    hover.style.left = Math.max(4, x) + "px";
    hover.style.top = Math.max(4, y) + "px";
  }

  // The page says titles itself, at once; the browser would take a second.
  function takeTitles(root) {
    root.querySelectorAll("svg title").forEach(function (title) {
      title.parentNode.setAttribute("data-say", title.textContent);
      title.remove();
    });
    root.querySelectorAll("[title]").forEach(function (element) {
      element.setAttribute("data-say", element.getAttribute("title"));
      element.removeAttribute("title");
    });
  }

  // ---- choosers ----

  function fill(select, values, chosen) {
    select.replaceChildren();
    values.forEach(function (value) {
      const option = document.createElement("option");
      option.value = option.textContent = value;
      option.selected = value === chosen;
      select.append(option);
    });
    select.parentNode.hidden = values.length < 2;
  }

  function distinct(templates, key) {
    return Array.from(new Set(templates.map(function (t) { return t.getAttribute("data-" + key); })));
  }

  function chooser(root) {
    const keys = root.dataset.keys.split(" ");
    const all = Array.from(root.querySelectorAll("template"));
    const stage = root.querySelector(".stage");
    const choices = root.querySelector(".choices");
    const chosen = {};
    const selects = {};

    // Each chooser offers what is left after those before it; a choice that is not left falls to the first.
    function show() {
      let left = all;
      keys.forEach(function (key) {
        const values = distinct(left, key);
        if (!values.includes(chosen[key])) chosen[key] = values[0];
        fill(selects[key], values, chosen[key]);
        left = left.filter(function (t) { return t.getAttribute("data-" + key) === chosen[key]; });
      });
      const copy = left[0].content.cloneNode(true);
      takeTitles(copy);
      stage.replaceChildren(copy);
      if (stage.querySelector(".flame")) find();
    }

    keys.forEach(function (key) {
      const label = document.createElement("label");
      const select = document.createElement("select");
      label.append(key + " ", select);
      choices.append(label);
      selects[key] = select;
      select.addEventListener("change", function () { chosen[key] = select.value; show(); });
    });
    if (all.length) show();
  }

  // ---- series ----

  document.addEventListener("click", function (event) {
    const entry = event.target.closest(".legend");
    if (!entry) return;
    const off = entry.classList.toggle("off");
    entry.closest("svg").querySelectorAll(".s" + entry.dataset.series).forEach(function (element) {
      element.classList.toggle("off-series", off);
    });
  });

  // ---- flame graphs ----

  // Widens one box to the whole width: those above it with it, those below it fill the row, others vanish.
  function widen(flame, chosen) {
    const left = Number(flame.dataset.left), width = Number(flame.dataset.width);
    const x = Number(chosen.dataset.x), w = Number(chosen.dataset.w), depth = Number(chosen.dataset.d);
    const tiny = 1e-6;
    flame.querySelectorAll(".frame").forEach(function (frame) {
      const fx = Number(frame.dataset.x), fw = Number(frame.dataset.w), below = Number(frame.dataset.d) < depth;
      const within = fx >= x - tiny && fx + fw <= x + w + tiny;
      const under = below && fx <= x + tiny && fx + fw >= x + w - tiny;
      frame.classList.toggle("off", !(under || (!below && within)));
      frame.classList.toggle("faded", under && w < 1 - tiny);
      const from = under ? 0 : (fx - x) / w, share = under ? 1 : fw / w;
      place(frame, left + from * width, share * width);
    });
  }

  function place(frame, x, width) {
    const box = frame.querySelector("rect");
    box.setAttribute("x", x);
    box.setAttribute("width", Math.max(0.3, width - 0.4));
    let text = frame.querySelector("text");
    const name = frame.dataset.say.split(" – ")[0];
    // A character takes about seven pixels.
    const room = Math.floor((width - 6) / 6.8);
    if (room < 4) { if (text) text.textContent = ""; return; }
    if (!text) {
      text = document.createElementNS("http://www.w3.org/2000/svg", "text");
      text.setAttribute("class", "onbox");
      text.setAttribute("font-size", "10.5");
      text.setAttribute("y", Number(box.getAttribute("y")) + 12);
      frame.append(text);
    }
    text.setAttribute("x", x + 3);
    text.textContent = name.length <= room ? name : name.slice(0, Math.ceil(room / 2) - 1) + "…" + name.slice(-Math.floor(room / 2));
  }

  document.addEventListener("click", function (event) {
    const frame = event.target.closest(".frame");
    if (frame) widen(frame.closest(".flame"), frame);
  });

  // Marks boxes by a part of their name; the share counts what stands on another match once.
  function find() {
    const text = document.getElementById("find").value.toLowerCase();
    const said = document.getElementById("found");
    said.textContent = "";
    document.querySelectorAll(".flame").forEach(function (flame) {
      let share = 0, until = -1;
      const hits = Array.from(flame.querySelectorAll(".frame")).filter(function (frame) {
        const hit = text !== "" && frame.dataset.say.split(" – ")[0].toLowerCase().includes(text);
        frame.classList.toggle("hit", hit);
        return hit;
      });
      hits.sort(function (a, b) { return a.dataset.x - b.dataset.x || b.dataset.w - a.dataset.w; });
      hits.forEach(function (frame) {
        const from = Number(frame.dataset.x), to = from + Number(frame.dataset.w);
        if (to > until + 1e-6) { share += to - Math.max(from, until); until = to; }
      });
      if (text !== "") said.textContent = "on the stack of " + written(share * 100) + "% of the samples";
    });
  }
  const finder = document.getElementById("find");
  if (finder) finder.addEventListener("input", find);

  // ---- pointing ----

  function numbers(text) { return text.split(" ").map(Number); }

  function written(value) {
    const digits = Math.abs(value) >= 100 ? 0 : Math.abs(value) >= 1 ? 2 : 3;
    return value.toLocaleString("en-US", { maximumFractionDigits: digits });
  }

  // The value of each line of a panel at the pointer, read back from the places of its points.
  function panelText(panel, event) {
    const svg = panel.ownerSVGElement;
    const at = new DOMPoint(event.clientX, event.clientY).matrixTransform(svg.getScreenCTM().inverse());
    const [left, right, seconds] = numbers(panel.dataset.t);
    const [bottom, top, largest] = numbers(panel.dataset.v);
    const lines = ["second " + written((at.x - left) / (right - left) * seconds)];
    panel.querySelectorAll(".line:not(.off-series)").forEach(function (line) {
      let best = null;
      line.getAttribute("d").split(/[ML]/).forEach(function (pair) {
        const [x, y] = numbers(pair);
        if (pair && (!best || Math.abs(x - at.x) < Math.abs(best[0] - at.x))) best = [x, y];
      });
      // Nothing was measured near the pointer: say nothing rather than a value from elsewhere.
      if (best && Math.abs(best[0] - at.x) < 12) {
        const value = (bottom - best[1]) / (bottom - top) * largest;
        lines.push(line.dataset.name + ": " + written(value) + " " + panel.dataset.unit);
      }
    });
    return lines.join("\n");
  }

  document.addEventListener("pointermove", function (event) {
    const panel = event.target.closest && event.target.closest(".panel");
    if (panel) return say(panelText(panel, event), event);
    const told = event.target.closest && event.target.closest("[data-say]");
    say(told && told.getAttribute("data-say"), event);
  });
  document.addEventListener("pointerleave", function () { hover.hidden = true; });

  takeTitles(document);
  document.querySelectorAll(".chooser").forEach(chooser);
})();
