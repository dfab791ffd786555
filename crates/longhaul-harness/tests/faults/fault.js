// Plants one fault into whatever page it is put into, before any script of the page runs. It knows no application: `at` is a
// selector, `kind` one of the kinds below.
(function plant({ kind, at }) {
  const styles = {
    "display-none": "display:none!important",
    "visibility-hidden": "visibility:hidden!important",
    "opacity-0": "opacity:0!important",
    "transparent-text": "color:transparent!important;-webkit-text-fill-color:transparent!important;border-color:transparent!important;background:none!important;caret-color:transparent!important",
    "zero-size": "display:inline-block!important;font-size:0!important;width:0!important;height:0!important;min-width:0!important;min-height:0!important;padding:0!important;border:0!important;overflow:hidden!important",
    "off-screen": "position:absolute!important;left:-9999px!important",
    "clipped": "clip-path:inset(50%)!important",
    "scaled-away": "transform:scale(0)!important",
    "masked": "-webkit-mask-image:linear-gradient(transparent,transparent)!important;mask-image:linear-gradient(transparent,transparent)!important",
    "filtered": "filter:opacity(0)!important",
    "shifted-text": "text-indent:-9999px!important;overflow:hidden!important;white-space:nowrap!important;display:block!important;border-color:transparent!important",
    "unclickable": "pointer-events:none!important",
    "above-the-top": "position:fixed!important;top:-3000px!important",
  };
  const roots = [document];
  const observers = [];
  const changed = { subtree: true, childList: true, characterData: true, attributes: true };
  const all = () => roots.flatMap((root) => [...root.querySelectorAll(at)]);
  const hits = (event) => event.composedPath().some((node) => node.matches && node.matches(at));
  const swallow = (event) => { event.stopImmediatePropagation(); event.preventDefault(); };
  const on = (types, act) => {
    listeners.push([types, act]);
    roots.forEach((root) => listen(root, types, act));
  };
  const listeners = [];
  function listen(root, types, act) {
    for (const type of types.split(" ")) root.addEventListener(type, (event) => { if (hits(event)) act(event); }, true);
  }
  const again = [];
  function repeat(act) {
    again.push(act);
    roots.forEach(observe);
    addEventListener("DOMContentLoaded", run);
  }
  function observe(root) {
    const observer = new MutationObserver(run);
    observer.observe(root, changed);
    observers.push(observer);
  }
  function run() {
    again.forEach((act) => act());
    observers.forEach((observer) => observer.takeRecords());
  }
  const attach = Element.prototype.attachShadow;
  Element.prototype.attachShadow = function (init) {
    const root = attach.call(this, init);
    roots.push(root);
    if (again.length) observe(root);
    listeners.forEach(([types, act]) => listen(root, types, act));
    if (styles[kind]) setTimeout(() => root.append(sheet()));
    return root;
  };
  function sheet() {
    const style = document.createElement("style");
    style.textContent = `${at}{${styles[kind]}}`;
    return style;
  }
  const seen = new WeakMap();
  const words = (element) => {
    const walker = document.createTreeWalker(element, NodeFilter.SHOW_TEXT);
    const found = [];
    while (walker.nextNode()) if (walker.currentNode.data.trim()) found.push(walker.currentNode);
    return found;
  };
  const rewrite = (change) => repeat(() => all().flatMap(words).forEach((node) => {
    if (seen.get(node) === node.data) return;
    node.data = change(node.data);
    seen.set(node, node.data);
  }));
  const cover = (through) => {
    const walls = new Map();
    const place = () => {
      for (const element of all()) {
        const box = element.getBoundingClientRect();
        if (!walls.has(element)) {
          const wall = document.createElement("div");
          wall.className = "wall";
          document.body.append(wall);
          walls.set(element, wall);
        }
        const shown = box.width > 0 && box.height > 0;
        walls.get(element).style.cssText = `position:fixed;background:#fff;z-index:2147483647;left:${box.x - 2}px;top:${box.y - 2}px;width:${box.width + 4}px;height:${box.height + 4}px;${through ? "pointer-events:none;" : ""}${shown ? "" : "display:none;"}`;
      }
      for (const [element, wall] of walls) if (!element.isConnected) { wall.remove(); walls.delete(element); }
    };
    repeat(place);
    addEventListener("scroll", place, true);
  };
  const once = (act) => { let done = false; return () => { if (!done) { done = true; act(); } }; };
  const kinds = {
    covered: () => cover(false),
    "covered-but-clickable": () => cover(true),
    "wrong-text": () => rewrite((text) => text.replace(/([\p{L}\p{N}])(\P{L}*)$/u, (_, last, rest) => (last === "x" ? "y" : "x") + rest)),
    "undefined-text": () => rewrite(() => "undefined"),
    "cut-text": () => rewrite((text) => text.trim().slice(0, Math.max(1, text.trim().length - 2)) + "…"),
    "stale-text": () => repeat(() => all().forEach((element) => {
      if (!seen.has(element)) { if (element.textContent.trim()) seen.set(element, element.textContent); return; }
      if (element.textContent !== seen.get(element)) element.textContent = seen.get(element);
    })),
    "wrong-name": () => repeat(() => all().forEach((element) => { if (element.getAttribute("aria-label") !== "Element") element.setAttribute("aria-label", "Element"); })),
    "no-role": () => repeat(() => all().forEach((element) => { if (element.getAttribute("role") !== "generic") element.setAttribute("role", "generic"); })),
    "hidden-from-readers": () => repeat(() => all().forEach((element) => { if (!element.hasAttribute("aria-hidden")) element.setAttribute("aria-hidden", "true"); })),
    dead: () => on("click submit", swallow),
    "dead-form": () => on("submit", swallow),
    "first-click-lost": () => { let lost = false; on("click", (event) => { if (!lost) { lost = true; swallow(event); } }); },
    twice: () => { let inside = false; on("click", (event) => { if (inside) return; inside = true; event.target.click(); inside = false; }); },
    disabled: () => repeat(() => all().forEach((element) => { if (!element.disabled) element.disabled = true; })),
    readonly: () => repeat(() => all().forEach((element) => { if (!element.readOnly) element.readOnly = true; })),
    truncates: () => on("input", (event) => { event.target.value = event.target.value.slice(0, 2); }),
    "upper-case": () => on("input", (event) => { event.target.value = event.target.value.toUpperCase() + "!"; }),
    "loses-content": () => on("input", (event) => { const field = event.target; setTimeout(() => { field.value = ""; }); }),
    "does-not-stick": () => on("change input", (event) => { event.target.checked = event.target.defaultChecked; swallow(event); }),
    "choice-reverts": () => on("change input", (event) => { event.target.selectedIndex = 0; }),
    "no-keys": () => on("keydown keypress", swallow),
    "loses-focus": () => on("focusin", (event) => { const field = event.target; setTimeout(() => field.blur()); }),
    "drop-lost": () => on("drop", swallow),
    "no-drag": () => repeat(() => all().forEach((element) => { if (element.draggable) element.draggable = false; })),
    "no-hover": () => on("mouseenter mouseover pointerenter pointerover mousemove", swallow),
    "file-lost": () => on("change input", swallow),
    duplicate: () => repeat(() => all().forEach((element) => {
      if (seen.has(element)) return;
      const copy = element.cloneNode(true);
      seen.set(element, true).set(copy, true);
      element.after(copy);
    })),
    missing: () => repeat(() => { const last = all().at(-1); if (last && last.style.display !== "none") last.style.setProperty("display", "none", "important"); }),
    late: () => repeat(() => all().forEach((element) => {
      if (seen.get(element) === element.textContent) return;
      seen.set(element, element.textContent);
      element.style.setProperty("visibility", "hidden", "important");
      setTimeout(() => element.style.removeProperty("visibility"), 9000);
    })),
    "wrong-target": () => repeat(() => all().forEach((element) => { if (element.getAttribute("href") !== "/#elsewhere") element.setAttribute("href", "/#elsewhere"); })),
    "console-error": () => addEventListener("load", () => console.error("could not start the widget", { code: 7 })),
    "console-error-later": () => addEventListener("click", once(() => setTimeout(() => console.error("handler failed"))), true),
    exception: () => addEventListener("load", () => setTimeout(() => { throw new Error("state is undefined"); })),
    rejection: () => addEventListener("load", () => { Promise.reject(new Error("nobody caught this")); }),
    "failed-request": () => addEventListener("load", () => { fetch("/missing-thing"); }),
    "missing-picture": () => addEventListener("load", () => { const picture = new Image(); picture.src = "/gone.png"; document.body.append(picture); }),
    "foreign-script": () => addEventListener("load", () => { const script = document.createElement("script"); script.src = "https://cdn.example/library.js"; document.head.append(script); }),
    "unexpected-alert": () => addEventListener("load", () => setTimeout(() => alert("Welcome!"))),
    "alert-on-click": () => addEventListener("click", once(() => alert("Saved")), true),
    blank: () => addEventListener("DOMContentLoaded", () => setTimeout(() => { document.body.replaceChildren(); })),
    frozen: () => addEventListener("load", () => { const end = Date.now() + 60000; while (Date.now() < end); }),
    "leaves-the-page": () => addEventListener("click", once(() => setTimeout(() => { location.href = "/nowhere"; })), true),
    "wrong-dialog-text": () => ["alert", "confirm", "prompt"].forEach((name) => { const own = window[name]; window[name] = (text, value) => own.call(window, `${text} (1)`, value); }),
    "no-dialog": () => { window.alert = () => {}; window.confirm = () => true; window.prompt = (_, value) => value; },
    "other-dialog": () => { const { alert, confirm } = window; window.confirm = (text) => { alert.call(window, text); return true; }; window.prompt = (text, value) => (confirm.call(window, text) ? value : null); window.alert = (text) => { confirm.call(window, text); }; },
    "answer-ignored": () => { const own = window.confirm; window.confirm = (text) => { own.call(window, text); return true; }; },
    "answer-lost": () => { const own = window.prompt; window.prompt = (text, value) => { own.call(window, text, value); return null; }; },
    "storage-lost": () => { Storage.prototype.setItem = () => {}; },
    "storage-cleared": () => { localStorage.clear(); },
    "stale-fetch": () => { const own = window.fetch; const kept = new Map(); window.fetch = async (url, options = {}) => {
      if (options.method && options.method !== "GET") return own(url, options);
      if (!kept.has(url)) kept.set(url, await own(url, options));
      return kept.get(url).clone();
    }; },
    "no-fetch": () => { window.fetch = () => new Promise(() => {}); },
    "slow-fetch": () => { const own = window.fetch; window.fetch = (...args) => new Promise((done) => setTimeout(() => done(own(...args)), 9000)); },
  };
  if (styles[kind]) document.documentElement.append(sheet());
  else kinds[kind]();
})(FAULT);
