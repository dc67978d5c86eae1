// Draws the figure beside each table, from the data in its own attribute. Without this file the tables stand alone.
"use strict";
(() => {
  const few = 3;
  const short = (value) => Number(Number(value).toPrecision(few)).toLocaleString("en", {maximumSignificantDigits: few});
  const clip = (text, most = 28) => (text.length > most ? text.slice(0, most - 1) + "…" : text);

  function intervals(spec, width) {
    const most = width < 480 ? 16 : 28;
    const left = Math.min(236, Math.max(60, ...spec.rows.map((row) => 14 + clip(row.name, most).length * 7.8)));
    const marks = [
      Plot.ruleX(spec.lines ?? [], {x: "at", stroke: "currentColor", strokeDasharray: "4,3"}),
      Plot.ruleY(spec.rows, {y: "name", x1: "low", x2: "high", stroke: "var(--accent)", strokeWidth: 6, strokeOpacity: 0.4, strokeLinecap: "round"}),
      Plot.dot(spec.rows, {y: "name", x: "value", fill: "var(--accent)", r: 5}),
    ];
    return {width, height: 44 + 34 * spec.rows.length, marginLeft: left, marginRight: 24, marginTop: 8, marginBottom: 30, marks,
      x: {label: null, domain: spec.domain ?? undefined, grid: true, ticks: width < 480 ? 3 : 5, tickFormat: short},
      y: {label: null, domain: spec.rows.map((row) => row.name), tickFormat: (name) => clip(name, most)}};
  }

  function bars(spec, width) {
    const made = intervals({...spec, rows: spec.rows.map((row) => ({...row, low: row.value, high: row.value}))}, width);
    made.marks = [
      Plot.ruleX([0], {stroke: "currentColor"}),
      Plot.barX(spec.rows, {y: "name", x: "value", fill: "var(--accent)", fillOpacity: 0.75, inset: 5}),
    ];
    return made;
  }

  function series(spec, width) {
    const most = width < 480 ? 14 : 28;
    const points = spec.series.flatMap((one) => one.points.map(([x, y]) => ({name: one.name, x, y})));
    const last = spec.series.filter((one) => one.points.length).map((one) => ({name: one.name, x: one.points.at(-1)[0], y: one.points.at(-1)[1]}));
    const ends = spec.domain ?? [Math.min(...points.map((one) => one.y)), Math.max(...points.map((one) => one.y))];
    const least = (ends[1] - ends[0]) * 16 / 212;  // a line of text, in units of the drawing
    last.sort((a, b) => a.y - b.y).forEach((one, at) => { one.at = at ? Math.max(one.y, last[at - 1].at + least) : one.y; });
    const right = 20 + Math.max(0, ...last.map((one) => clip(one.name, most).length * 7.6));
    return {width, height: 260, marginLeft: 48, marginRight: right, marginTop: 14, marginBottom: 34,
      x: {label: spec.x, tickFormat: (value) => Number(value).toLocaleString("en"), ticks: width < 480 ? 3 : 5}, y: {label: null, grid: true, domain: spec.domain ?? undefined, tickFormat: short},
      color: {domain: spec.series.map((one) => one.name), range: ["#2f7fc1", "#c2571a", "#2c8a57", "#8d5bb8", "#a8892a", "#b8457c", "#4b8f9e", "#7a7f87"]},
      marks: [
        Plot.ruleX(spec.releases ?? [], {stroke: "currentColor", strokeOpacity: 0.25}),
        Plot.lineY(points, {x: "x", y: "y", stroke: "name", z: "name", strokeWidth: 2}),
        Plot.text(last, {x: "x", y: "at", text: (one) => clip(one.name, most), textAnchor: "start", dx: 6, fill: "currentColor"}),
      ]};
  }

  const kinds = {intervals, bars, series};

  function draw(figure) {
    const place = figure.querySelector(".plot");
    const spec = JSON.parse(figure.dataset.figure);
    figure.classList.add("drawn");
    const width = Math.max(260, Math.min(place.clientWidth || 640, 820));
    const svg = Plot.plot({...kinds[spec.kind](spec, width), style: {background: "transparent", fontSize: "13px"}});
    svg.setAttribute("aria-hidden", "true");
    place.replaceChildren(svg);
  }

  function drawAll(root = document) {
    for (const figure of root.querySelectorAll("figure.chart")) {
      try { draw(figure); } catch (problem) { figure.classList.remove("drawn"); }
    }
  }

  if (typeof Plot === "undefined") return;
  document.addEventListener("fairveil:fresh", (event) => drawAll(event.target));
  let waiting = 0;
  addEventListener("resize", () => { clearTimeout(waiting); waiting = setTimeout(drawAll, 150); });
  drawAll();
})();
