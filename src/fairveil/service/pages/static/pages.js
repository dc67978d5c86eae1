// Fresh numbers every three seconds while somebody looks, and a price that follows the form. Pages work without it.
"use strict";
(() => {
  const every = 3000, pause = 400;

  async function asked(url, options) {
    const answer = await fetch(url, {credentials: "same-origin", redirect: "error", ...options});
    if (answer.status === 401) location.reload();
    return new DOMParser().parseFromString(await answer.text(), "text/html");
  }

  function swap(old, fresh) {
    if (!fresh || old.innerHTML === fresh.innerHTML || old.dataset.seen === fresh.innerHTML) return;
    old.dataset.seen = fresh.innerHTML;
    const held = old.contains(document.activeElement) ? document.activeElement.id : null;
    const open = new Set([...old.querySelectorAll("details[open]")].map((one) => one.id));
    old.replaceChildren(...fresh.childNodes);
    for (const one of old.querySelectorAll("details")) if (open.has(one.id)) one.open = true;
    if (held) document.getElementById(held)?.focus();
    old.dispatchEvent(new CustomEvent("fairveil:fresh", {bubbles: true}));
  }

  const live = document.querySelectorAll("[data-live]");
  async function refresh() {
    if (!document.hidden) {
      try {
        const page = await asked(location.pathname + location.search);
        for (const old of document.querySelectorAll("[data-live]")) swap(old, page.getElementById(old.id));
      } catch (problem) { /* the service is away for a moment; the next time will do */ }
    }
    setTimeout(refresh, every);
  }
  if (live.length) setTimeout(refresh, every);

  for (const form of document.querySelectorAll("form[data-quote]")) {
    let waiting = 0, turn = 0;
    const price = async () => {
      const mine = ++turn;
      const fields = new URLSearchParams(new FormData(form));
      fields.set("do", "quote");
      try {
        const page = await asked(form.getAttribute("action"), {method: "POST", body: fields});
        if (mine === turn) for (const old of form.querySelectorAll("[data-quoted]")) swap(old, page.getElementById(old.id));
      } catch (problem) { /* the button shows the price too */ }
    };
    form.addEventListener("input", () => { clearTimeout(waiting); waiting = setTimeout(price, pause); });
  }
})();
