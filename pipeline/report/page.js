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
  // A name that may break after an underscore, as in tables.
  const named = (name) => make("bdi", {}, ...name.split(/(?<=_)/).flatMap((part, at) => (at ? [make("wbr"), part] : [part])));
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
      readers.separation = { at: () => null, tell: () => [] };
      separationReader(of.separation, N).then((reader) => {
        readers.separation = reader;
        enlarge();
      });
    }
    const roomFor = (box) => Math.max(6, Math.floor((box.clientWidth - MARGIN) / CELL));
    const room = () => roomFor(document.querySelector("[data-zoom]"));
    const blockView = (block) => {
      const [row, size] = [starts[block], starts[block + 1] - starts[block]];
      return { row, column: row, rows: size, columns: size };
    };
    const around = (row, column) => {
      const size = Math.min(24, N, room());
      const begin = (middle) => Math.max(0, Math.min(N - size, middle - (size >> 1)));
      return { row: begin(row), column: begin(column), rows: size, columns: size };
    };
    const { block, cell } = of.opened || { block: 0 };
    let view = block === null || (cell && starts[block + 1] - starts[block] > room()) ? around(...cell) : blockView(block);

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
        tell(event, reader().tell(order[row], order[column]));
      });
      map.addEventListener("pointerleave", silence);
      map.addEventListener("click", (event) => {
        view = around(...place(event));
        enlarge();
      });
    }
    const chooser = document.getElementById("block");
    if (chooser) {
      chooser.value = block || 0;
      chooser.addEventListener("change", () => {
        view = blockView(+chooser.value);
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

  // The d' of all pairs, deflated, in hundredths. Only colours end at the range of the map.
  async function unpacked(text) {
    const bytes = Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
    const content = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
    return new Int32Array(await new Response(content).arrayBuffer());
  }

  async function separationReader({ least, most, untrained, packed, beyond = [] }, N) {
    const hundredths = packed && (await unpacked(packed));
    const large = new Map(beyond.map(([i, j, d]) => [i * N + j, d]));
    const value = (i, j) => {
      const [a, b] = i < j ? [i, j] : [j, i];
      if (large.has(a * N + b)) return large.get(a * N + b);
      const found = hundredths ? hundredths[a * N - (a * (a + 3)) / 2 + b - 1] : untrained;
      return found === untrained ? null : found / 100;
    };
    return {
      at: (i, j) => {
        const found = i === j ? null : value(i, j);
        if (found === null) return null;
        const shade = Math.max(0, Math.min(1, (most - found) / (most - least)));
        const text = found > 999 ? ">999" : found.toFixed(found < 10 ? 2 : found < 100 ? 1 : 0);
        return { text, shade };
      },
      tell: (i, j) => {
        if (i === j) return [names[i]];
        const found = value(i, j);
        const told = found === null ? "not trained" : `d' ${found.toFixed(2)}`;
        return [`${names[i]} and ${names[j]}`, hundredths ? told : ""];
      },
    };
  }

  // In the type of the names beside a map, which is that of the page at 11 pixels.
  const ruler = document.createElement("canvas").getContext("2d");
  ruler.font = `11px ${getComputedStyle(document.body).fontFamily}`;
  const widthOfLabel = (label) => Math.ceil(ruler.measureText(label).width);

  // A part of a map with names and numbers.
  function enlarged(key, reader, order, { row, column, rows, columns }) {
    const shown = (place) => data.short[order[place]];
    const labels = [...Array(rows).keys()].map((r) => shown(row + r));
    labels.push(...[...Array(columns).keys()].map((c) => shown(column + c)));
    const cell = CELL;
    const margin = 8 + Math.max(...labels.map(widthOfLabel));
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
      make("span", {}, named(label)),
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

  // Bars are left of the middle if they favour the true class, right of it if the predicted one. Each is a label and a
  // number; sums come below them.
  function contributionBars(parts, sums) {
    const largest = Math.max(...parts.map(([, logit]) => Math.abs(logit)));
    const row = ([label, logit]) =>
      bar(label, 0.5, 0.5 + logit / largest / 2, signed(logit), logit > 0 ? "wrong" : "true");
    const line = ([label, logit]) => [
      make("span", { class: "wide" }, label),
      make("span", { class: "value" }, signed(logit)),
    ];
    return make("div", { class: "bars" }, ...parts.flatMap(row), ...sums.flatMap(line));
  }

  const restOf = (others, what) => (others ? `${plural(others, what)} and intercept` : "intercept");

  function featureBars({ features, rest, others, logit }) {
    return contributionBars(
      features.map(([name, value, part]) => [`${name} = ${value}`, part]),
      [[restOf(others, "other feature"), rest], ["logit", logit]],
    );
  }

  function vectorBars({ vectors, rest, others, logit }, odds) {
    return contributionBars(
      vectors.map(([name, kernel, part]) => [`${name}, kernel ${kernel}`, part]),
      [[restOf(others, "other sample"), rest], logit === null ? ["coupled odds", odds] : ["logit", logit]],
    );
  }

  // The machines that moved the coupled odds, with the names that they have elsewhere.
  function movedBars({ machines, rest, others, prior, odds }) {
    const sidesOf = (sides) => (typeof sides === "string" ? sides : sides.map((c) => names[c]).join(" / "));
    const sums = [["coupled odds", odds]];
    if (prior) sums.unshift(["priors", prior]);
    if (others) sums.unshift([plural(others, "other"), rest]);
    return contributionBars(machines.map(([sides, , effect]) => [sidesOf(sides), effect]), sums);
  }

  const says = (logit, a, b) => `${odds(logit)} for ${logit >= 0 ? a : b}`;

  function machineText(error) {
    const found = error.critical;
    const [predicted, label] = [names[error.predicted], names[error.label]];
    const coupledLogit = Math.log(Math.max(error.likeliest[0][1], 1e-30) / Math.max(error.likelihood, 1e-30));
    const coupled = `After coupling the odds are ${odds(coupledLogit)} for ${predicted}.`;
    if (!found) return [`${ownText(error, predicted, label)} ${coupled}`];
    if (found.way === "trained") return [`${verdict(found, predicted, label)} ${coupled}`];
    if (found.way === "completed") {
      const machine = `${names[found.pair[0]]} / ${names[found.pair[1]]}`;
      return [
        `The pair ${predicted} / ${label} was not trained. It was completed through ${plural(found.through, "common neighbour")}, ` +
          `with odds of ${says(found.pairLogit, predicted, label)}. ${coupled}`,
        `The machine with the largest logit for ${predicted} is ${machine}: ${signed(found.logit)}.`,
      ];
    }
    return [
      `Machine ${found.column} separates the two, with ${found.sizes[0]} classes on one side and ${found.sizes[1]} on the ` +
        `other. Of all that do, its odds favour ${predicted} most: ${odds(found.logit)}${found.logit < 0 ? " against it" : ""}. ${coupled}`,
    ];
  }

  function verdict({ logit, dprime }, predicted, label) {
    const told = `its odds are ${says(logit, predicted, label)}.`;
    const separated = dprime === undefined ? "" : ` Its d' is ${dprime.toFixed(2)}.`;
    return logit >= 0
      ? `The machine ${predicted} / ${label} is wrong too: ${told}${separated}`
      : `The machine ${predicted} / ${label} is right: ${told} The other pairs overruled it.${separated}`;
  }

  // Of a pair whose machine has no features to name, or that has none.
  function ownText({ own }, predicted, label) {
    if (!own) return "Its machine was not read: the model is too large to explain every error here.";
    if (own.route === "none") return "No machine is trained on these two classes alone.";
    if (own.route === "trained") return verdict(own, predicted, label);
    const how = own.route === "potentials" ? "longer paths" : plural(own.through / 2, "common neighbour");
    return `The pair ${predicted} / ${label} was not trained. It was completed through ${how}, with odds of ${says(own.logit, predicted, label)}.`;
  }

  function showSample(place) {
    const error = data.errors[place];
    const parts = [
      make("h3", {}, `Sample ${error.id}`),
      make("p", {}, "True class ", make("strong", {}, named(names[error.label])), ", predicted ", make("strong", {}, named(names[error.predicted]))),
      probabilityBars(error),
      make("h3", {}, "Critical machine"),
      ...machineText(error).map((text) => make("p", {}, text)),
    ];
    if (error.critical && error.critical.features.length) {
      parts.push(
        make("p", {}, `Features that contribute most to its logit; bars to the right favour ${names[error.predicted]}:`),
        featureBars(error.critical),
      );
    }
    if (error.own && error.own.vectors.length) {
      const what = error.own.logit === null ? "the coupled odds" : "the pair's logit";
      parts.push(
        make("p", {}, `Training samples that contribute most to ${what}; bars to the right favour ${names[error.predicted]}:`),
        vectorBars(error.own, error.moved.odds),
      );
    }
    if (error.moved && error.moved.machines.length) {
      const what = typeof error.moved.machines[0][0] === "string" ? "Machines" : "Pairs";
      parts.push(make("h3", {}, `${what} that moved the coupled odds`), movedBars(error.moved));
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
