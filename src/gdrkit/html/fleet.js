(() => {
  const [NAME, STANDING, GROUP, SUMMARY, CAUSES, PEER, DIFFERENT, ASK, LAYER, RACK, TARGET] = Array(11).keys();
  const { nodes, words, standings, layers, advice } = data;
  document.body.classList.add("script");
  const canvas = document.getElementById("map"), drawer = document.getElementById("drawer");
  const filter = document.getElementById("filter"), matches = document.getElementById("matches");
  const views = all("[data-view]");
  const word = (node, key) => words[node[key]] || "";
  const text = nodes.map((node) => [
    node[NAME], standings[node[STANDING]], word(node, RACK), ...node[CAUSES].map((n) => words[n]),
    ...node[DIFFERENT].flatMap(([trait, value]) => [words[trait], words[value]]),
  ].join("\n").toLowerCase());
  const field = {
    node: (node) => node[NAME],
    standing: (node) => standings[node[STANDING]],
    cause: (node) => node[CAUSES].map((n) => words[n]).join(" "),
    layer: (node) => layers[node[LAYER]] || "",
    rack: (node) => word(node, RACK),
    group: (node) => `${node[GROUP] || ""}`,
  };
  const IS = Object.fromEntries(standings.map((name, number) => [name, number]));
  const racks = new Set(nodes.map((node) => node[RACK])).size;
  let shown = new Uint8Array(nodes.length).fill(1), chosen = -1, pointed = -1, view = "racks", cells = [], labels = [];

  // -- where each node is drawn: [x, y, width, height]; a well node has no place among the layers --
  function place() {
    const width = canvas.clientWidth || 600, ratio = devicePixelRatio || 1;
    labels = [];
    const height = view === "layers" ? byLayer(width) : racks > 1 ? byRack(width) : inRows(width);
    canvas.style.height = `${height}px`;
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
    draw();
  }
  const sizeOf = (count) => count > 3000 ? 11 : count > 300 ? 18 : 22;
  function inRows(width) {
    const size = sizeOf(nodes.length), columns = Math.max(1, Math.floor(width / size));
    cells = nodes.map((_, n) => [(n % columns) * size, Math.floor(n / columns) * size, size - 2, size - 2]);
    return Math.ceil(nodes.length / columns) * size;
  }
  // A rack is a block of columns of eight below its name; racks stand side by side.
  function byRack(width) {
    const size = sizeOf(nodes.length), rows = 8, counts = new Map();
    for (const node of nodes) counts.set(node[RACK], (counts.get(node[RACK]) || 0) + 1);
    const at = new Map(), gap = size > 12 ? 8 : 4;
    let x = 0, y = 16, tall = 0, free = 0;
    for (const [rack, count] of counts) {
      const deep = Math.max(Math.min(rows, count), Math.ceil(count * size / width));
      const wide = Math.ceil(count / deep) * size + gap;
      if (x && x + wide > width + gap) { x = 0; y += tall + 24; tall = free = 0; }
      at.set(rack, [x, y, 0, deep]);
      const label = (words[rack] || "no rack known").slice(0, 24);
      if (x >= free) { labels.push([label, x, y - 4]); free = x + 7 * label.length + 6; }
      tall = Math.max(tall, deep * size);
      x += wide;
    }
    cells = nodes.map((node) => {
      const rack = at.get(node[RACK]), n = rack[2]++;
      return [rack[0] + Math.floor(n / rack[3]) * size, rack[1] + (n % rack[3]) * size, size - 2, size - 2];
    });
    return y + tall;
  }
  function byLayer(width) {
    const row = 24, left = 92, step = (width - left - 44) / nodes.length;
    cells = nodes.map((node, n) => node[LAYER] < 0 ? null
      : [left + n * step, node[LAYER] * row, Math.max(2, step - (step > 4 ? 1 : 0)), row - 5]);
    return layers.length * row;
  }

  // -- drawing --
  function draw() {
    const ink = canvas.getContext("2d"), ratio = devicePixelRatio || 1;
    const style = getComputedStyle(document.documentElement);
    const colour = Object.fromEntries(["bg", "bar", "ink", "dim", "edge", "bad", "mark", "tint", "unknown", "direct", "warn"]
      .map((name) => [name, style.getPropertyValue(`--${name}`).trim()]));
    ink.setTransform(ratio, 0, 0, ratio, 0, 0);
    ink.clearRect(0, 0, canvas.width, canvas.height);
    ink.textBaseline = "alphabetic";
    ink.font = "11px system-ui, sans-serif";
    ink.fillStyle = colour.dim;
    for (const [label, x, y] of labels) ink.fillText(label, x, y);
    if (view === "layers") drawLayers(ink, colour);
    const alike = new Map();  // one path for all nodes of a standing
    for (let n = 0; n < nodes.length; n++) {
      if (!cells[n]) continue;
      const key = 2 * nodes[n][STANDING] + shown[n];
      if (!alike.has(key)) alike.set(key, []);
      alike.get(key).push(n);
    }
    for (const [key, same] of alike) {
      ink.globalAlpha = key % 2 ? 1 : 0.13;
      drawAlike(ink, colour, key >> 1, same);
    }
    ink.globalAlpha = 1;
    for (const [number, name] of [[pointed, "ink"], [chosen, "direct"]]) {
      if (number < 0 || !cells[number]) continue;
      const [x, y, w, h] = cells[number];
      ink.strokeStyle = colour[name]; ink.lineWidth = 2;
      ink.strokeRect(x - 1, y - 1, w + 2, h + 2);
    }
  }
  function drawLayers(ink, colour) {
    const width = canvas.clientWidth || 600;
    layers.forEach((name, number) => {
      const count = nodes.reduce((sum, node, n) => sum + (node[LAYER] === number && shown[n]), 0);
      ink.fillStyle = colour.bar;
      ink.fillRect(92, number * 24, width - 136, 19);
      ink.fillStyle = colour.ink;
      ink.font = "12.5px system-ui, sans-serif";
      ink.fillText(name, 0, number * 24 + 14);
      ink.textAlign = "right";
      ink.fillText(String(count), width, number * 24 + 14);
      ink.textAlign = "left";
    });
  }
  // The shape tells the standing: a bar below or above, a filled square, an outline, a dashed or crossed one.
  function drawAlike(ink, colour, standing, same) {
    const small = cells[same[0]][2] < 10;
    let on = colour.ink;
    const fill = (style, top, share) => {
      ink.fillStyle = style;
      ink.beginPath();
      for (const n of same) { const [x, y, w, h] = cells[n]; ink.rect(x, y + h * top, w, h * share); }
      ink.fill();
    };
    if (standing === IS.ready) fill(colour.bar, 0, 1);
    else if (standing === IS.blocked) { fill(colour.bad, 0, 1); on = colour.bg; }
    else if (standing === IS.warnings || standing === IS["next-boot"]) {
      const share = small ? 0.5 : 0.2;
      fill(small && view !== "layers" ? colour.bar : colour.tint, 0, 1);
      fill(colour.mark, standing === IS.warnings ? 1 - share : 0, share);
      on = colour.warn;
    } else {
      on = standing === IS.unknown ? colour.unknown : standing === IS.impossible ? colour.edge : colour.dim;
      ink.strokeStyle = on;
      ink.lineWidth = 1.3;
      if (standing === IS.unreachable || standing === IS.unreadable) ink.setLineDash([2, 2]);
      ink.beginPath();
      for (const n of same) {
        const [x, y, w, h] = cells[n];
        ink.rect(x + 0.7, y + 0.7, w - 1.4, h - 1.4);
        if (standing === IS.impossible) { ink.moveTo(x, y + h); ink.lineTo(x + w, y); }
      }
      ink.stroke();
      ink.setLineDash([]);
    }
    if (standing === IS.ready || cells[same[0]][2] < 14) return;
    ink.fillStyle = on;
    ink.textAlign = "center";
    ink.font = `600 ${Math.min(12, cells[same[0]][2] - 5)}px system-ui, sans-serif`;
    for (const n of same) {
      const [x, y, w, h] = cells[n], group = nodes[n][GROUP];
      if (group) ink.fillText(group, x + w / 2, y + h / 2 + (standing === IS.warnings ? 3 : 4), w - 4);
    }
    ink.textAlign = "left";
  }
  function at(event) {
    const box = canvas.getBoundingClientRect(), x = event.clientX - box.left, y = event.clientY - box.top;
    const slack = view === "layers" ? 2 : 1;
    return cells.findIndex((cell) => cell && x >= cell[0] - slack && x < cell[0] + cell[2] + slack
      && y >= cell[1] - 1 && y < cell[1] + cell[3] + 1);
  }
  // The nearest node in the direction of an arrow key.
  function beside(number, [right, down]) {
    if (number < 0 || !cells[number]) return cells.findIndex(Boolean);
    const [x, y] = cells[number];
    let best = number, least = Infinity;
    cells.forEach((cell, n) => {
      if (!cell) return;
      const along = right ? (cell[0] - x) * right : (cell[1] - y) * down;
      const across = Math.abs(right ? cell[1] - y : cell[0] - x);
      if (along > 0.5 && along + 20 * across < least) { best = n; least = along + 20 * across; }
    });
    return best;
  }

  // -- one node beside the healthiest of its kind: only what differs --
  const element = (tag, content, parent, names) => {
    const made = parent.appendChild(document.createElement(tag));
    if (content) made.textContent = content;
    if (names) made.className = names;
    return made;
  };
  function copied(words, parent) {
    const box = element("div", "", parent, "cmd");
    element("code", words, box);
    const button = element("button", "Copy", box, "copy");
    button.type = "button";
    button.dataset.copy = words;
    button.setAttribute("aria-label", `Copy: ${words.slice(0, 60)}`);
  }
  function glyph(name, parent) {
    const made = parent.appendChild(document.createElementNS("http://www.w3.org/2000/svg", "svg"));
    made.setAttribute("class", `g ${name}`);
    made.setAttribute("aria-hidden", "true");
    made.appendChild(document.createElementNS("http://www.w3.org/2000/svg", "use")).setAttribute("href", `#g-${name}`);
  }
  function describe(node) {
    const head = element("div", "", drawer, "head");
    element("h3", node[NAME], head);
    if (racks > 1) element("small", word(node, RACK), head);
    const close = element("button", "Close", head, "copy");
    close.type = "button";
    close.addEventListener("click", () => { open(-1); canvas.focus(); });
    const line = element("p", "", drawer);
    glyph(data.glyphs[node[STANDING]], line);
    element("span", ` ${standings[node[STANDING]]}: ${word(node, SUMMARY)}`, line);
    if (node[LAYER] >= 0) element("p", `Layer: ${layers[node[LAYER]]}`, drawer, "sub");
    if (advice[node[GROUP]] >= 0) element("p", words[advice[node[GROUP]]], drawer);
    for (const ask of node[ASK]) { element("p", "To find out:", drawer); copied(words[ask], drawer); }
    if (node[TARGET] >= 0) copied(`gdr report ${words[node[TARGET]]}`, drawer);
    if (node[GROUP]) {
      const link = element("a", `Group ${node[GROUP]}, all nodes with this cause`, element("p", "", drawer));
      link.href = `#group-${node[GROUP]}`;
    }
    if (node[PEER] < 0) return;
    const peer = words[node[PEER]];
    element("h4", node[DIFFERENT].length ? `Beside ${peer}, the healthiest of its kind, ${node[DIFFERENT].length} differ${node[DIFFERENT].length === 1 ? "s" : ""}`
      : `The same as ${peer}, the healthiest of its kind`, drawer);
    if (!node[DIFFERENT].length) return;
    const table = element("table", "", drawer), row = element("tr", "", element("thead", "", table));
    for (const title of ["what", node[NAME], peer]) element("th", title, row).scope = "col";
    const body = element("tbody", "", table);
    for (const [trait, here, there] of node[DIFFERENT]) {
      const cells = element("tr", "", body);
      element("td", words[trait], cells);
      element("td", words[here] || "not known", cells, "here");
      element("td", words[there] || "not known", cells);
    }
  }
  function open(number) {
    chosen = number;
    drawer.replaceChildren();
    const was = drawer.hidden;
    drawer.hidden = number < 0;
    if (number >= 0) {
      const node = nodes[number];
      describe(node);
      live.textContent = `${node[NAME]}, ${standings[node[STANDING]]}. ${word(node, SUMMARY)}`;
    }
    remember();
    if (was === drawer.hidden) draw(); else place();
  }

  // -- the filter --
  function apply() {
    const tests = filter.value.toLowerCase().split(/\s+/).filter(Boolean).map((part) => {
      const [, key, list] = /^(node|standing|cause|layer|rack|group):(.*)$/.exec(part) || [];
      if (!key) return (number) => text[number].includes(part);
      const some = list.split(",").filter(Boolean);
      return (number) => {
        const value = field[key](nodes[number]).toLowerCase();
        return !some.length || some.some((one) => key === "group" ? value === one : value.includes(one));
      };
    });
    let count = 0;
    shown = Uint8Array.from(nodes, (_, number) => {
      const kept = tests.every((test) => test(number));
      count += kept;
      return kept ? 1 : 0;
    });
    matches.textContent = tests.length ? `${count} of ${nodes.length} nodes` : `${nodes.length} nodes`;
    remember();
    draw();
  }
  function show(name) {
    view = name === "layers" ? "layers" : "racks";
    for (const button of views) button.setAttribute("aria-pressed", String(button.dataset.view === view));
    remember();
    place();
  }
  function remember() {
    const state = new URLSearchParams();
    if (filter.value) state.set("q", filter.value);
    if (chosen >= 0) state.set("node", nodes[chosen][NAME]);
    if (view !== "racks") state.set("view", view);
    const hash = state.toString();
    if (hash !== location.hash.slice(1)) history.replaceState(null, "", hash ? `#${hash}` : location.pathname);
  }
  function recall() {
    const state = new URLSearchParams(location.hash.slice(1));
    if (!["q", "node", "view"].some((key) => state.has(key))) return;
    filter.value = state.get("q") || "";
    const wanted = state.get("node"), number = nodes.findIndex((node) => node[NAME] === wanted);
    chosen = number;
    show(state.get("view"));
    apply();
    open(number);
    drawer.scrollIntoView({ block: "nearest" });
  }

  canvas.addEventListener("pointermove", (event) => {
    const number = at(event);
    if (number === pointed) return;
    pointed = number;
    const node = nodes[number];
    canvas.title = node ? `${node[NAME]}: ${standings[node[STANDING]]}: ${word(node, SUMMARY)}` : "";
    draw();
  });
  canvas.addEventListener("pointerleave", () => { pointed = -1; draw(); });
  canvas.addEventListener("click", (event) => open(at(event)));
  canvas.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key];
    if (!step) return;
    event.preventDefault();
    open(beside(chosen, step));
  });
  for (const button of views) button.addEventListener("click", () => show(button.dataset.view));
  filter.addEventListener("input", apply);
  addEventListener("resize", place);
  addEventListener("hashchange", recall);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
  document.addEventListener("keydown", (event) => {
    if (event.key === "/" && event.target !== filter) { event.preventDefault(); filter.focus(); }
    if (event.key === "Escape" && chosen >= 0) { open(-1); canvas.focus(); }
  });
  if (racks < 2) for (const button of views) if (button.dataset.view === "racks") button.textContent = "Nodes";
  place();
  matches.textContent = `${nodes.length} nodes`;
  recall();
})();
