(() => {
  const [NAME, STANDING, GROUP, SUMMARY, CAUSES, PEER, DIFFERENT, ASK] = [0, 1, 2, 3, 4, 5, 6, 7];
  const { nodes, words, standings } = data;
  document.body.classList.add("script");
  const canvas = document.getElementById("map"), drawer = document.getElementById("drawer");
  const filter = document.getElementById("filter"), matches = document.getElementById("matches");
  const text = nodes.map((node) => [
    node[NAME], standings[node[STANDING]], ...node[CAUSES].map((n) => words[n]),
    ...node[DIFFERENT].flatMap(([trait, value]) => [words[trait], words[value]]),
  ].join("\n").toLowerCase());
  const field = {
    node: (node) => node[NAME],
    standing: (node) => standings[node[STANDING]],
    cause: (node) => node[CAUSES].map((n) => words[n]).join(" "),
  };
  let shown = new Uint8Array(nodes.length).fill(1), chosen = -1, pointed = -1, cells = [], size = 14;

  // -- the map: nodes whose names differ only in their last number are a block --
  const stem = (name) => name.replace(/\d+(?!.*\d)/, "");
  function place() {
    const width = canvas.clientWidth || 600, ratio = devicePixelRatio || 1;
    size = nodes.length > 3000 ? 10 : nodes.length > 300 ? 14 : 22;
    const columns = Math.max(1, Math.floor(width / size));
    let x = 0, y = 0, before = null;
    cells = nodes.map((node) => {
      const block = stem(node[NAME]);
      if (before !== null && block !== before && x) { x = 0; y += size * 1.5; }
      before = block;
      const cell = [x * size, y];
      if (++x === columns) { x = 0; y += size; }
      return cell;
    });
    const height = y + size;
    canvas.style.height = `${height}px`;
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
    draw();
  }
  function draw() {
    const ink = canvas.getContext("2d"), ratio = devicePixelRatio || 1;
    const style = getComputedStyle(document.documentElement);
    const colour = (name) => style.getPropertyValue(`--${name}`).trim();
    const colours = {
      ready: colour("bar"), warnings: colour("mark"), blocked: colour("bad"), unknown: colour("unknown"),
      unreachable: colour("dim"), unreadable: colour("dim"), impossible: colour("edge"),
    };
    ink.setTransform(ratio, 0, 0, ratio, 0, 0);
    ink.clearRect(0, 0, canvas.width, canvas.height);
    const inside = size - 3;
    nodes.forEach((node, number) => {
      const [x, y] = cells[number], standing = standings[node[STANDING]];
      ink.globalAlpha = shown[number] ? 1 : 0.13;
      ink.fillStyle = ink.strokeStyle = colours[standing];
      ink.lineWidth = 1.4;
      ink.beginPath();
      if (standing === "warnings") {
        ink.moveTo(x + size / 2 - 1, y); ink.lineTo(x + inside, y + inside); ink.lineTo(x, y + inside); ink.fill();
      } else if (standing === "ready" || standing === "blocked") {
        ink.fillRect(x, y, inside, inside);
        if (standing === "blocked" && size > 12) {
          ink.strokeStyle = colour("bg");
          ink.moveTo(x + 3, y + 3); ink.lineTo(x + inside - 3, y + inside - 3);
          ink.moveTo(x + inside - 3, y + 3); ink.lineTo(x + 3, y + inside - 3); ink.stroke();
        }
      } else {
        ink.rect(x + 0.7, y + 0.7, inside - 1.4, inside - 1.4);
        if (standing === "impossible") { ink.moveTo(x, y + inside); ink.lineTo(x + inside, y); }
        if (standing === "unreachable" || standing === "unreadable") ink.setLineDash([2, 2]);
        ink.stroke(); ink.setLineDash([]);
      }
    });
    ink.globalAlpha = 1;
    for (const [number, name] of [[pointed, "ink"], [chosen, "direct"]]) {
      if (number < 0) continue;
      ink.strokeStyle = colour(name); ink.lineWidth = 2;
      ink.strokeRect(cells[number][0] - 1, cells[number][1] - 1, inside + 2, inside + 2);
    }
  }
  function at(event) {
    const box = canvas.getBoundingClientRect(), x = event.clientX - box.left, y = event.clientY - box.top;
    return cells.findIndex(([left, top]) => x >= left && x < left + size && y >= top && y < top + size);
  }

  // -- one node: only what differs from the healthiest of its kind --
  const element = (tag, content, parent, names) => {
    const made = parent.appendChild(document.createElement(tag));
    if (content) made.textContent = content;
    if (names) made.className = names;
    return made;
  };
  function open(number) {
    chosen = number;
    drawer.replaceChildren();
    drawer.hidden = number < 0;
    if (number >= 0) {
      const node = nodes[number];
      element("h3", node[NAME], drawer);
      element("p", `${standings[node[STANDING]]}: ${words[node[SUMMARY]]}`, drawer);
      if (node[GROUP]) {
        const link = element("a", `group ${node[GROUP]}`, element("p", "", drawer));
        link.href = `#group-${node[GROUP]}`;
      }
      for (const ask of node[ASK]) element("code", words[ask], element("p", "To find out: ", drawer));
      if (node[PEER] >= 0) {
        const peer = words[node[PEER]];
        element("p", node[DIFFERENT].length ? `What differs from ${peer}:` : `The same as ${peer}.`, drawer);
        if (node[DIFFERENT].length) {
          const table = element("table", "", drawer), head = element("tr", "", element("thead", "", table));
          for (const title of ["", "here", peer]) element("th", title, head);
          const body = element("tbody", "", table);
          for (const [trait, here, there] of node[DIFFERENT]) {
            const row = element("tr", "", body);
            for (const word of [trait, here, there]) element("td", words[word] || "not known", row);
          }
        }
      }
      live.textContent = `${node[NAME]}, ${standings[node[STANDING]]}. ${words[node[SUMMARY]]}`;
    }
    remember();
    draw();
  }

  // -- the filter --
  function apply() {
    const tests = filter.value.toLowerCase().split(/\s+/).filter(Boolean).map((word) => {
      const [, key, list] = /^(node|standing|cause):(.*)$/.exec(word) || [];
      if (!key) return (number) => text[number].includes(word);
      const some = list.split(",").filter(Boolean);
      return (number) => {
        const value = field[key](nodes[number]).toLowerCase();
        return !some.length || some.some((one) => value.includes(one));
      };
    });
    let count = 0;
    shown = Uint8Array.from(nodes, (_, number) => {
      const kept = tests.every((test) => test(number));
      count += kept;
      return kept ? 1 : 0;
    });
    matches.textContent = tests.length ? `${count} of ${nodes.length} nodes` : "";
    remember();
    draw();
  }
  function remember() {
    const state = new URLSearchParams();
    if (filter.value) state.set("q", filter.value);
    if (chosen >= 0) state.set("node", nodes[chosen][NAME]);
    const hash = state.toString();
    if (hash !== location.hash.slice(1)) history.replaceState(null, "", hash ? `#${hash}` : location.pathname);
  }
  function recall() {
    const state = new URLSearchParams(location.hash.slice(1));
    if (!state.has("q") && !state.has("node")) return;
    filter.value = state.get("q") || "";
    chosen = nodes.findIndex((node) => node[NAME] === state.get("node"));
    apply();
    open(chosen);
  }

  canvas.addEventListener("pointermove", (event) => {
    const number = at(event);
    if (number === pointed) return;
    pointed = number;
    canvas.title = number < 0 ? "" : `${nodes[number][NAME]}: ${standings[nodes[number][STANDING]]}`;
    draw();
  });
  canvas.addEventListener("pointerleave", () => { pointed = -1; draw(); });
  canvas.addEventListener("click", (event) => open(at(event)));
  canvas.addEventListener("keydown", (event) => {
    const columns = Math.max(1, Math.floor((canvas.clientWidth || 600) / size));
    const step = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -columns, ArrowDown: columns }[event.key];
    if (event.key === "Escape") open(-1);
    else if (step) {
      event.preventDefault();
      open(Math.min(nodes.length - 1, Math.max(0, chosen < 0 ? 0 : chosen + step)));
    }
  });
  filter.addEventListener("input", apply);
  addEventListener("resize", place);
  addEventListener("hashchange", recall);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
  document.addEventListener("keydown", (event) => {
    if (event.key === "/" && event.target !== filter) { event.preventDefault(); filter.focus(); }
  });
  place();
  recall();
})();
