const lines = (text, letters) => text.split(" ").reduce((made, word) => {
  const last = made[made.length - 1];
  if (last && (last + " " + word).length <= letters) made[made.length - 1] = last + " " + word;
  else made.push(word);
  return made;
}, []);
const draw = (key) => {
  const place = document.getElementById(key);
  if (!place || place.classList.contains("drawn")) return;
  const room = place.querySelector(".live").clientWidth - (matchMedia("(max-width: 40rem)").matches ? 0 : 38); // the menu is above it on a phone, and beside it elsewhere
  const titled = (name, value) => ((name === "x" || value?.legend?.titleLimit) && typeof value?.title === "string" ? Object.assign(value, {title: lines(value.title, Math.floor((room - 60) / 7.6))}) : value); // 60: what is left of the axis
  const legends = (name, value) => (name === "legend" && value?.columns ? Object.assign(value, {columns: Math.max(1, Math.floor(value.columns * Math.min(1, room / 560))), labelLimit: room - 90}) : titled(name, value));
  const spec = Object.assign(JSON.parse(JSON.stringify(specs[key]), legends), {background: "white"});
  if (spec.width > room) {
    spec.height = Math.min(spec.height, 240);
    if (typeof spec.title === "string") spec.title = {text: lines(spec.title, Math.floor(room / 7.6)), fontSize: 11, frame: "bounds"};
  }
  spec.width = Math.max(240, room);
  const columns = new Set((spec.data?.values ?? []).map((row) => row.x)).size;
  if (spec.layer && spec.width - 88 < 36 * columns) spec.layer = spec.layer.filter((layer) => layer.mark.type !== "text"); // cells too narrow for numbers; 88: axis and labels
  window.fairveilEmbed(place.querySelector(".live"), spec, {actions: {export: true, source: false, compiled: false, editor: false}})
    .then(() => place.classList.add("drawn")).catch(() => {});
};
const watcher = new IntersectionObserver((seen) => seen.forEach((item) => { if (item.isIntersecting) { draw(item.target.id); watcher.unobserve(item.target); } }), {rootMargin: "400px"});
const keys = Object.keys(specs);
keys.forEach((key) => watcher.observe(document.getElementById(key)));
if (keys.length <= 8) (window.requestIdleCallback ?? setTimeout)(() => keys.forEach(draw)); // a page of few figures is whole before anybody scrolls
addEventListener("beforeprint", () => document.querySelectorAll("details").forEach((part) => { part.open = true; }));
