"use strict";
// The script of a report: tables sort and can be searched, maps enlarge, a sample can be chosen. Texts from the data are
// only ever set as text, never as markup.
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const names = data.names;
  const SVG = "http://www.w3.org/2000/svg";
  document.body.classList.add("scripted");

  const make = (tag, attributes = {}, ...content) => {
    const made = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
    made.append(...content);
    return made;
  };
  const draw = (tag, attributes = {}, text) => {
    const drawn = document.createElementNS(SVG, tag);
    for (const [name, value] of Object.entries(attributes)) drawn.setAttribute(name, value);
    if (text !== undefined) drawn.textContent = text;
    return drawn;
  };
  const plural = (count, what) => `${count.toLocaleString("en")} ${what}${count === 1 ? "" : "s"}`;

  // Tables.

  const cellText = (row, column) => row.cells[column].textContent.trim();
  const leadingNumber = (text) => {
    const found = parseFloat(text.replace(/,/g, ""));
    return Number.isNaN(found) ? null : found;
  };
  const compare = (a, b) => {
    if (typeof a === "number" && typeof b === "number") return a - b;
    return String(a).localeCompare(String(b), "en", { numeric: true });
  };

  function sortBy(table, heading) {
    const column = heading.cellIndex;
    const numeric = heading.classList.contains("number");
    // Numbers begin with the largest, names with the first.
    const before = heading.getAttribute("aria-sort");
    const descending = before ? before === "ascending" : numeric;
    for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
    heading.setAttribute("aria-sort", descending ? "descending" : "ascending");
    const rows = [...table.tBodies[0].rows].map((row) => {
      const text = cellText(row, column);
      return { row, value: numeric ? leadingNumber(text) : text, empty: text === "" };
    });
    rows.sort((a, b) => a.empty - b.empty || (descending ? -1 : 1) * (a.empty ? 0 : compare(a.value, b.value)));
    table.tBodies[0].append(...rows.map((found) => found.row));
  }
  for (const button of document.querySelectorAll("th button")) {
    button.addEventListener("click", () => sortBy(button.closest("table"), button.parentElement));
  }

  for (const input of document.querySelectorAll("input[data-table]")) {
    const rows = [...document.getElementById(input.dataset.table).tBodies[0].rows];
    const texts = rows.map((row) => row.textContent.toLowerCase());
    const output = input.parentElement.querySelector("output");
    input.addEventListener("input", () => {
      const wanted = input.value.trim().toLowerCase();
      let found = 0;
      rows.forEach((row, place) => {
        row.hidden = !texts[place].includes(wanted);
        found += !row.hidden;
      });
      output.textContent = wanted ? `${found} of ${plural(rows.length, "row")}` : plural(rows.length, "row");
    });
  }

  // A note beside the pointer.

  const tip = document.getElementById("tip");
  function tell(event, lines) {
    if (!lines) {
      tip.hidden = true;
      return;
    }
    tip.replaceChildren(...lines.map((line) => make("div", {}, line)));
    tip.hidden = false;
    const { offsetWidth: width, offsetHeight: height } = tip;
    const right = document.documentElement.clientWidth;
    tip.style.left = `${Math.max(4, Math.min(event.clientX + 14, right - width - 4))}px`;
    tip.style.top = `${event.clientY > height + 20 ? event.clientY - height - 12 : event.clientY + 18}px`;
  }
  const silence = () => tell(null, null);

  // Maps. A cell of an enlarged part, and the margin for names.

  const [CELL, MARGIN] = [16, 106];

  function maps(of) {
    const { order, starts } = of;
    const N = order.length;
    const readers = {};
    if (of.confusion) readers.errors = errorReader(of.confusion, N);
    if (of.separation) {
      readers.separation = { ready: false, at: () => null, tell: () => [] };
      readSeparation(of, (reader) => {
        readers.separation = reader;
        enlarge();
      });
    }
    let view = { row: 0, column: 0, rows: starts[1], columns: starts[1] };

    const roomFor = (box) => Math.max(6, Math.floor((box.clientWidth - MARGIN) / CELL));
    function enlarge() {
      for (const box of document.querySelectorAll("[data-zoom]")) {
        const key = box.dataset.zoom;
        const most = roomFor(box);
        const shown = { ...view, rows: Math.min(view.rows, most), columns: Math.min(view.columns, most) };
        box.replaceChildren(enlarged(key, readers[key], order, shown));
        const frame = document.querySelector(`svg.map[data-map="${key}"] .window`);
        const sides = { x: shown.column, y: shown.row, width: shown.columns, height: shown.rows };
        for (const [name, value] of Object.entries(sides)) frame.setAttribute(name, value);
      }
    }

    for (const map of document.querySelectorAll("svg.map[data-map]")) {
      const reader = () => readers[map.dataset.map];
      const place = (event) => {
        const box = map.getBoundingClientRect();
        const at = (value, length) => Math.max(0, Math.min(N - 1, Math.floor((value / length) * N)));
        return [at(event.clientY - box.top, box.height), at(event.clientX - box.left, box.width)];
      };
      map.addEventListener("pointermove", (event) => {
        const [row, column] = place(event);
        tell(event, reader().tell(order[row], order[column], true));
      });
      map.addEventListener("pointerleave", silence);
      map.addEventListener("click", (event) => {
        const [row, column] = place(event);
        const size = Math.min(24, N, roomFor(document.querySelector("[data-zoom]")));
        const begin = (middle) => Math.max(0, Math.min(N - size, middle - (size >> 1)));
        view = { row: begin(row), column: begin(column), rows: size, columns: size };
        enlarge();
      });
    }
    const chooser = document.getElementById("block");
    if (chooser) {
      chooser.addEventListener("change", () => {
        const [start, stop] = [starts[+chooser.value], starts[+chooser.value + 1]];
        view = { row: start, column: start, rows: stop - start, columns: stop - start };
        enlarge();
      });
    }
    enlarge();
    let width = window.innerWidth;
    window.addEventListener("resize", () => {
      if (window.innerWidth !== width) enlarge();
      width = window.innerWidth;
    });
  }

  function errorReader({ cells, totals }, N) {
    const counts = new Map();
    let most = 1;
    for (let at = 0; at < cells.length; at += 3) {
      counts.set(cells[at] * N + cells[at + 1], cells[at + 2]);
      if (cells[at] !== cells[at + 1]) most = Math.max(most, cells[at + 2]);
    }
    const count = (i, j) => counts.get(i * N + j) || 0;
    return {
      ready: true,
      at: (i, j) => {
        const found = count(i, j);
        return found ? { text: String(found), shade: i === j ? null : Math.sqrt(found / most) } : null;
      },
      tell: (i, j) => {
        const share = totals[i] ? ` (${((100 * count(i, j)) / totals[i]).toFixed(1)}% of the class)` : "";
        const first = i === j ? `${names[i]}, predicted right` : `${names[i]}, predicted as ${names[j]}`;
        return [first, `${plural(count(i, j), "sample")}${share}`];
      },
    };
  }

  // The picture of d' has the values in it: a pixel per pair, its level between the least d' and the most.
  function readSeparation({ order, separation }, done) {
    const N = order.length;
    const { least, most, exact } = separation;
    const [low, high] = separation.levels;
    const places = new Int32Array(N);
    order.forEach((c, place) => (places[c] = place));
    const reader = (pixels) => {
      const value = (i, j) => {
        const level = pixels ? pixels[4 * (places[i] * N + places[j])] : 0;
        return level ? { value: most - ((level - low) / (high - low)) * (most - least), faint: level === low } : null;
      };
      return {
        ready: true,
        at: (i, j) => {
          const found = i === j ? null : value(i, j);
          if (!found) return null;
          return { text: found.value.toFixed(1), shade: (most - found.value) / (most - least) };
        },
        tell: (i, j) => {
          if (i === j) return [names[i]];
          const found = value(i, j);
          const told = found ? `d' ${found.faint ? "≥ " : ""}${found.value.toFixed(2)}` : "not trained";
          return [`${names[i]} and ${names[j]}`, pixels ? told : ""];
        },
      };
    };
    if (!exact) {
      done(reader(null));
      return;
    }
    const picture = new Image();
    picture.onload = () => {
      const canvas = make("canvas", { width: N, height: N });
      const context = canvas.getContext("2d", { willReadFrequently: true });
      context.drawImage(picture, 0, 0);
      done(reader(context.getImageData(0, 0, N, N).data));
    };
    picture.src = document.querySelector('svg.map[data-map="separation"] image').getAttribute("href");
  }

  function shortened(name, most) {
    return name.length <= most ? name : `${name.slice(0, most - 1)}…`;
  }

  // A part of a map with names and numbers.
  function enlarged(key, reader, order, { row, column, rows, columns }) {
    const shown = (place) => shortened(names[order[place]], 15);
    const labels = [...Array(rows).keys()].map((r) => shown(row + r));
    labels.push(...[...Array(columns).keys()].map((c) => shown(column + c)));
    const cell = CELL;
    const margin = Math.min(MARGIN, 16 + 6.3 * Math.max(...labels.map((label) => label.length)));
    const picture = draw("svg", {
      viewBox: `0 0 ${margin + columns * cell} ${margin + rows * cell}`,
      "data-map": key,
      role: "img",
      "aria-label": `The part of the map from ${names[order[row]]} to ${names[order[row + rows - 1]]}, enlarged`,
    });
    picture.style.maxWidth = `${Math.round((columns > 12 ? 1.35 : 1.8) * (margin + columns * cell))}px`;
    for (let r = 0; r < rows; r += 1) {
      const y = margin + r * cell;
      picture.append(
        draw("text", { x: margin - 5, y: y + 12, "text-anchor": "end" }, labels[r]),
      );
    }
    for (let c = 0; c < columns; c += 1) {
      const at = `translate(${margin + c * cell + 11.5} ${margin - 5}) rotate(-90)`;
      picture.append(draw("text", { transform: at }, labels[rows + c]));
    }
    for (let r = 0; r < rows; r += 1) {
      for (let c = 0; c < columns; c += 1) {
        const [i, j] = [order[row + r], order[column + c]];
        const found = reader.at(i, j);
        const [x, y] = [margin + c * cell, margin + r * cell];
        const kind = i === j ? "own" : found ? "cell value" : "empty";
        const square = draw("rect", { x, y, width: cell, height: cell, class: kind });
        if (found && i !== j) square.setAttribute("fill-opacity", (0.15 + 0.75 * found.shade).toFixed(2));
        square.addEventListener("pointermove", (event) => tell(event, reader.tell(i, j)));
        picture.append(square);
        if (found) {
          const text = draw("text", { x: x + cell / 2, y: y + 11.5, class: "count" }, found.text);
          if (i !== j && found.shade > 0.6) text.classList.add("strong");
          if (found.text.length > 2) text.style.fontSize = `${found.text.length > 3 ? 6.5 : 8}px`;
          picture.append(text);
        }
      }
    }
    picture.addEventListener("pointerleave", silence);
    return picture;
  }

  if (data.maps) maps(data.maps);

  // The graph.

  function graph({ x, y, lines, bend, degrees, hubs }) {
    const picture = document.getElementById("graph-figure");
    const near = picture.querySelector(".near");
    const told = document.getElementById("graph-told");
    const size = picture.viewBox.baseVal.width;
    const isHub = new Set(hubs);
    const neighbours = names.map(() => []);
    for (let at = 0; at < lines.length; at += 2) {
      neighbours[lines[at]].push(lines[at + 1]);
      neighbours[lines[at + 1]].push(lines[at]);
    }
    const bent = (a, b) => size / 2 + bend * ((a + b) / 2 - size / 2);
    const curve = (c, o) => `M${x[c]} ${y[c]}Q${bent(x[c], x[o])} ${bent(y[c], y[o])} ${x[o]} ${y[o]}`;
    let chosen = -1;
    function choose(c) {
      if (c === chosen) return;
      chosen = c;
      near.setAttribute("d", c < 0 ? "" : neighbours[c].map((other) => curve(c, other)).join(""));
      told.textContent = c < 0 ? "\u00a0" : `${names[c]}${isHub.has(c) ? " (hub)" : ""}: ${plural(degrees[c], "pair")}`;
    }
    picture.addEventListener("pointermove", (event) => {
      const box = picture.getBoundingClientRect();
      const [px, py] = [((event.clientX - box.left) / box.width) * size, ((event.clientY - box.top) / box.height) * size];
      let [best, least] = [-1, 24 * 24];
      for (let c = 0; c < x.length; c += 1) {
        const distance = (x[c] - px) ** 2 + (y[c] - py) ** 2;
        if (distance < least) [best, least] = [c, distance];
      }
      choose(best);
    });
    picture.addEventListener("pointerleave", () => choose(-1));
  }
  if (data.graph) graph(data.graph);

  // The chosen sample.

  const probability = (p) => (p >= 0.0001 || p === 0 ? p.toFixed(4) : p.toExponential(0));
  const signed = (value) => `${value < 0 ? "−" : "+"}${Math.abs(value).toFixed(2)}`;
  function odds(logit) {
    const ratio = Math.exp(Math.abs(logit));
    const text = ratio >= 1e6 ? ratio.toExponential(0) : ratio >= 10 ? Math.round(ratio).toLocaleString("en") : ratio.toFixed(1);
    return `${text} to 1`;
  }

  function bar(label, from, to, text, kind) {
    const inner = make("i");
    inner.style.left = `${100 * Math.min(from, to)}%`;
    inner.style.width = `${Math.max(0.5, 100 * Math.abs(to - from))}%`;
    return [
      make("span", {}, make("bdi", {}, label)),
      make("span", { class: `track ${kind}` }, inner),
      make("span", { class: "value" }, text),
    ];
  }

  function probabilityBars(error) {
    const shown = error.likeliest.slice();
    if (!shown.some(([c]) => c === error.label)) shown.push([error.label, error.likelihood]);
    const kind = (c) => (c === error.label ? "true" : c === error.predicted ? "wrong" : "");
    return make("div", { class: "bars" }, ...shown.flatMap(([c, p]) => bar(names[c], 0, p, probability(p), kind(c))));
  }

  // Contributions stand left of the middle if they speak for the true class, right of it if for the predicted one.
  function contributionBars({ features, rest, others, logit: sum }) {
    const largest = Math.max(...features.map((one) => Math.abs(one[2])));
    const row = (label, logit) =>
      bar(label, 0.5, 0.5 + logit / largest / 2, signed(logit), logit > 0 ? "wrong" : "true");
    const line = (label, logit) => [
      make("span", { class: "wide" }, label),
      make("span", { class: "value" }, signed(logit)),
    ];
    return make(
      "div",
      { class: "bars" },
      ...features.flatMap(([name, value, logit]) => row(`${name} = ${value}`, logit)),
      ...line(others ? `${plural(others, "other feature")} and intercept` : "intercept", rest),
      ...line("logit", sum),
    );
  }

  function machineText(error) {
    const found = error.critical;
    const [predicted, label] = [names[error.predicted], names[error.label]];
    const coupledLogit = Math.log(Math.max(error.likeliest[0][1], 1e-30) / Math.max(error.likelihood, 1e-30));
    const coupled = `After coupling the odds are ${odds(coupledLogit)} for ${predicted}.`;
    if (!found) {
      const why = data.kernel
        ? "Machines with a kernel have no features to name."
        : "Its machine was not read, or there is none: the pair was completed along longer paths.";
      return [`${coupled} ${why}`];
    }
    const says = (logit, a, b) => `${odds(logit)} for ${logit >= 0 ? a : b}`;
    if (found.way === "trained") {
      const verdict =
        found.logit >= 0
          ? `The machine ${predicted} / ${label} is wrong too: its odds are ${says(found.logit, predicted, label)}.`
          : `The machine ${predicted} / ${label} is right: its odds are ${says(found.logit, predicted, label)}. The other pairs overruled it.`;
      return [`${verdict} Its d' is ${found.dprime.toFixed(2)}. ${coupled}`];
    }
    if (found.way === "completed") {
      const machine = `${names[found.pair[0]]} / ${names[found.pair[1]]}`;
      return [
        `The pair ${predicted} / ${label} was not trained. It was completed through ${plural(found.through, "common neighbour")}, ` +
          `with odds of ${says(found.pairLogit, predicted, label)}. ${coupled}`,
        `The machine that speaks most for ${predicted} is ${machine}: logit ${signed(found.logit)}.`,
      ];
    }
    return [
      `Machine ${found.column} separates the two, with ${found.sizes[0]} classes on one side and ${found.sizes[1]} on the ` +
        `other, and speaks most for ${predicted}: ${odds(found.logit)}${found.logit < 0 ? " against it" : ""}. ${coupled}`,
    ];
  }

  function showSample(place) {
    const error = data.errors[place];
    const parts = [
      make("h3", {}, `Sample ${error.sample}`),
      make("p", {}, "True class ", make("strong", {}, names[error.label]), ", predicted ", make("strong", {}, names[error.predicted])),
      probabilityBars(error),
      make("h3", {}, "Critical machine"),
      ...machineText(error).map((text) => make("p", {}, text)),
    ];
    if (error.critical && error.critical.features.length) {
      parts.push(
        make("p", {}, `Features that contribute most to its logit; to the right, those that speak for ${names[error.predicted]}:`),
        contributionBars(error.critical),
      );
    }
    document.getElementById("sample").replaceChildren(...parts);
    for (const row of document.querySelectorAll("#table-errors tr[data-key]")) {
      if (+row.dataset.key === place) row.setAttribute("aria-current", "true");
      else row.removeAttribute("aria-current");
    }
  }
  if (data.errors) {
    document.getElementById("table-errors").tBodies[0].addEventListener("click", (event) => {
      const row = event.target.closest("tr[data-key]");
      if (row) showSample(+row.dataset.key);
    });
    showSample(0);
  }
})();
