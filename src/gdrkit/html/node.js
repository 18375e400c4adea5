(() => {
  const panels = document.getElementById("pairs");
  let chosen = data.start;
  if (panels) panels.classList.add("script");

  // Every path was drawn beforehand; here one is only picked.
  function show(key) {
    const pair = data.pairs[key];
    for (const form of pair ? ["wide", "tall"] : []) {
      const svg = document.querySelector(`.pic svg.${form}`);
      if (!svg) continue;
      svg.closest("figure").dataset.kind = pair.kind;
      svg.querySelector(".r-d").setAttribute("d", pair[form][0]);
      svg.querySelector(".r-s").setAttribute("d", pair[form][1]);
      for (const device of all(".dev", svg)) {
        const of = device.dataset.device;
        device.classList.toggle("on", of === pair.gpu || of === pair.net);
      }
    }
    for (const name of all(".pair h3")) name.classList.toggle("on", name.id === key);
    for (const panel of all(".pair")) panel.classList.toggle("on", panel.querySelector("h3.on") !== null);
  }
  function choose(key) {
    const name = document.getElementById(key);
    if (!name?.matches(".pair h3")) return;
    chosen = key;
    show(key);
    for (const cell of all(".mx a")) {
      if (cell.hash === `#${key}`) cell.setAttribute("aria-current", "true");
      else cell.removeAttribute("aria-current");
    }
    live.textContent = `${name.textContent}. ${name.parentNode.querySelector(".happens").textContent}`;
  }
  // A device stands for the pair of it and the other end of the chosen pair; a GPU for that with its own NIC.
  function pairOf(device) {
    if (data.near[device]) return data.near[device];
    const [, row] = /^pair-(\d+)-/.exec(chosen) || [];
    return Object.keys(data.pairs).find((key) => data.pairs[key].net === device && key.startsWith(`pair-${row}-`));
  }
  const pointed = (target) => {
    const cell = target.closest?.(".mx a");
    if (cell) return cell.hash.slice(1);
    const device = target.closest?.(".dev");
    return device && pairOf(device.dataset.device);
  };
  for (const [enter, leave] of [["pointerover", "pointerout"], ["focusin", "focusout"]]) {
    document.addEventListener(enter, (event) => { const key = pointed(event.target); if (key) show(key); });
    document.addEventListener(leave, (event) => { if (pointed(event.target)) show(chosen); });
  }
  // The devices of a picture are one tab stop; arrow keys move among them.
  for (const svg of panels ? all(".pic svg.wide, .pic svg.tall") : []) {
    svg.setAttribute("role", "group");
    all(".dev", svg).forEach((device, number) => {
      device.setAttribute("role", "button");
      device.setAttribute("tabindex", number ? "-1" : "0");
      device.setAttribute("aria-label", device.querySelector("title").textContent);
    });
  }
  document.addEventListener("keydown", (event) => {
    const device = event.target.closest?.(".dev");
    if (!device) return;
    if (event.key === "Enter" || event.key === " ") {
      event.preventDefault();
      const key = pairOf(device.dataset.device);
      if (key) go(key);
      return;
    }
    const step = { ArrowLeft: -1, ArrowUp: -1, ArrowRight: 1, ArrowDown: 1 }[event.key];
    const devices = all(".dev", device.ownerSVGElement), next = devices[devices.indexOf(device) + step];
    if (!next) return;
    event.preventDefault();
    device.setAttribute("tabindex", "-1");
    next.setAttribute("tabindex", "0");
    next.focus();
  });
  const go = (key) => { history.replaceState(null, "", `#${key}`); choose(key); };
  document.addEventListener("click", (event) => {
    if (event.target.closest("[data-copy]")) return;
    const key = pointed(event.target);
    if (key) { event.preventDefault(); go(key); }
  });
  document.addEventListener("keydown", (event) => {
    const cell = event.target.closest?.(".mx td");
    const [down, right] = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] }[event.key] || [];
    if (!cell || down === undefined) return;
    const row = cell.parentNode.parentNode.rows[cell.parentNode.sectionRowIndex + down];
    const link = row?.cells[cell.cellIndex + right]?.querySelector("a");
    if (link) { event.preventDefault(); go(link.hash.slice(1)); link.focus(); }
  });
  // A printed report has every finding open that is more than a note.
  let opened = [];
  addEventListener("beforeprint", () => {
    opened = all("details:not([open])").filter((part) => !part.querySelector("summary .note"));
    for (const part of opened) part.open = true;
  });
  addEventListener("afterprint", () => { for (const part of opened) part.open = false; });
  addEventListener("hashchange", () => choose(location.hash.slice(1)));
  choose(location.hash.length > 1 && data.pairs[location.hash.slice(1)] ? location.hash.slice(1) : data.start);
})();
