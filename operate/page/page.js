// What the page can do without this script it does with forms and links. The script refreshes it, follows new events, moves the slider and copies.
"use strict";
(() => {
  const find = (selector, within = document) => within.querySelector(selector);

  // A token in the fragment of the address was never sent. It goes into the form, and out of the address.
  const login = find("form[data-login]");
  const token = new URLSearchParams(location.hash.slice(1)).get("token");
  if (token) {
    history.replaceState(null, "", location.pathname + location.search);
    if (login) {
      find("[name=token]", login).value = token;
      login.requestSubmit();
    }
  }

  const follows = find("[data-follows]"), state = find("[data-state]"), pause = find("[data-pause]"), live = find("#live");
  let paused = false, source = null, waiting = null;

  // Somebody reads what is selected, or has the focus, so it stays as it is.
  const reads = (element) => {
    const s = getSelection();
    return element.contains(document.activeElement) || (!s.isCollapsed && s.rangeCount > 0 && element.contains(s.anchorNode));
  };
  const say = (text) => { if (state.textContent !== text) state.textContent = text; };

  const show = () => {
    if (waiting === null) return say(paused ? "stands still" : "refreshes itself");
    if (paused || reads(live)) return say("there is something new");
    live.innerHTML = waiting;
    waiting = null;
    ready(live);
    say("refreshes itself");
  };

  const open = (address, events) => {
    const begin = () => {
      if (source || document.hidden) return;
      source = new EventSource(address());
      for (const [kind, handle] of Object.entries(events)) source.addEventListener(kind, (e) => handle(JSON.parse(e.data), e.lastEventId));
      source.addEventListener("failed", (e) => say(JSON.parse(e.data)));
      source.onerror = () => { if (source.readyState === EventSource.CLOSED) { say("the program does not answer"); source = null; setTimeout(begin, 5000); } };
    };
    document.addEventListener("visibilitychange", () => {
      if (!document.hidden) return begin();
      if (source) source.close();
      source = null;
    });
    addEventListener("pagehide", () => { if (source) source.close(); });
    follows.hidden = false;
    begin();
  };

  if (document.body.hasAttribute("data-live") && live) {
    open(() => location.pathname + location.search, { page: (html) => { waiting = html; show(); } });
    document.addEventListener("selectionchange", show);
    document.addEventListener("focusout", () => setTimeout(show));
    show();
  }

  // New events come above the others. They wait while somebody has scrolled down or marks something.
  const rows = find("[data-stream]"), fresh = find("[data-new]"), mostRows = 500;
  if (rows) {
    const seen = new Set([...rows.rows].map((r) => r.dataset.key));
    let kept = [], last = "";
    const insert = () => {
      if (paused || (kept.length && (scrollY > 200 || reads(rows)))) {
        fresh.hidden = !kept.length;
        fresh.textContent = `Show ${kept.length} new`;
        return say(paused ? "stands still" : "new events wait");
      }
      for (const r of kept) rows.prepend(r);
      while (rows.rows.length > mostRows) rows.lastElementChild.remove();
      kept = [];
      fresh.hidden = true;
      say("follows");
    };
    const add = (html, id) => {
      last = id;
      const t = document.createElement("template");
      t.innerHTML = html;
      for (const r of [...t.content.children]) {
        if (seen.has(r.dataset.key)) continue;
        seen.add(r.dataset.key);
        kept.push(r);
      }
      if (seen.size > 10 * mostRows) for (const key of [...seen].slice(0, seen.size - 5 * mostRows)) seen.delete(key);
      kept = kept.slice(-mostRows);
      insert();
    };
    const address = () => {
      const u = new URL(rows.dataset.stream, document.baseURI);
      if (last) u.searchParams.set("from", last);
      return u;
    };
    open(address, { rows: add });
    fresh.addEventListener("click", () => { scrollTo(0, 0); getSelection().removeAllRanges(); fresh.blur(); insert(); });
    addEventListener("scroll", insert, { passive: true });
    document.addEventListener("selectionchange", insert);
    pause.addEventListener("click", () => setTimeout(insert));
    insert();
  }

  pause.addEventListener("click", () => {
    paused = !paused;
    pause.setAttribute("aria-pressed", paused);
    pause.textContent = paused ? "Go on" : "Pause";
    if (live) show();
  });

  // The slider shows the number at once, and the event when it rests.
  const slider = find("form[data-slider]");
  if (slider) {
    const range = find("input[type=range]", slider), output = find("output", slider);
    let wait, asked;
    const number = () => { output.value = range.value; };
    range.addEventListener("input", () => {
      number();
      clearTimeout(wait);
      wait = setTimeout(async () => {
        if (asked) asked.abort();
        asked = new AbortController();
        const address = `${slider.getAttribute("action")}?${new URLSearchParams(new FormData(slider))}`;
        try {
          const answer = await fetch(address, { signal: asked.signal });
          const page = new DOMParser().parseFromString(await answer.text(), "text/html");
          const moment = find("#moment", page);
          if (!moment) return location.assign(address);
          find("#moment").replaceChildren(...moment.childNodes);
          ready(find("#moment"));
          history.replaceState(null, "", address);
          for (const r of document.querySelectorAll("tr[id^=n]")) r.toggleAttribute("aria-current", r.id === `n${range.value}`);
        } catch (e) {
          if (e.name !== "AbortError") location.assign(address);
        }
      }, 150);
    });
    number();
  }

  // Buttons that copy are only there when this script runs.
  function ready(within) {
    for (const b of within.querySelectorAll("[data-copy]")) b.hidden = false;
  }
  ready(document);
  document.addEventListener("click", async (e) => {
    const b = e.target.closest("[data-copy]"), link = e.target.closest("[data-copy-link]");
    if (!b && !link) return;
    if (link && !navigator.clipboard) return; // the link works as one
    e.preventDefault();
    const code = b ? find("code", b.parentElement) : null, text = code ? code.textContent : link.href;
    try {
      await navigator.clipboard.writeText(text);
      (b || link).textContent = "Copied";
    } catch {
      if (code) getSelection().selectAllChildren(code);
    }
  });
})();
