// What a user can see of some nodes. Runs in a world of its own: the page can neither see nor change it.
// Called with options {look, scroll, keep} and the nodes; answers one object of facts for each. With `inner`, the nodes are
// frames, and what is looked at is a part {part, point} of each frame's own viewport.
function probe(options, ...nodes) {
  const fold = (s) => (s || '').replace(/\s+/g, ' ').trim();
  const parentOf = (n) => {
    if (n.assignedSlot) return n.assignedSlot;
    if (n.parentElement) return n.parentElement;
    const root = n.getRootNode();
    return root && root.host ? root.host : null;
  };
  const within = (n, outer) => { for (let e = n; e; e = parentOf(e)) if (e === outer) return true; return false; };
  const tag = (e) => {
    if (!e) return 'nothing';
    let s = '<' + e.localName;
    if (e.id) s += ' id="' + e.id.slice(0, 40) + '"';
    const c = e.getAttribute && e.getAttribute('class');
    if (c) s += ' class="' + fold(c).slice(0, 60) + '"';
    return s + '>';
  };
  const rgba = (c) => {
    const m = /^rgba?\(([^)]+)\)/.exec(c || '');
    if (!m) return null;
    const p = m[1].split(/[\s,/]+/).filter(Boolean).map(parseFloat);
    return [p[0], p[1], p[2], p.length > 3 ? p[3] : 1];
  };
  const rectsOf = (n) => {
    const solid = (list) => [...list].filter((r) => r.width > 0 && r.height > 0);
    const range = () => { const r = document.createRange(); r.selectNodeContents(n); return solid(r.getClientRects()); };
    if (n.nodeType !== 1) return range();
    const own = solid(n.getClientRects());
    return own.length ? own : range();
  };
  const frameOf = () => ({ l: 0, t: 0, r: innerWidth, b: innerHeight });
  const cutBy = (r, c) => ({ l: Math.max(r.l, c.l), t: Math.max(r.t, c.t), r: Math.min(r.r, c.r), b: Math.min(r.b, c.b) });
  const area = (r) => Math.max(0, r.r - r.l) * Math.max(0, r.b - r.t);
  const box = (r) => ({ l: r.left, t: r.top, r: r.right, b: r.bottom });
  const rootClips = () => {
    // The overflow of the root (or of the body, when the root has none) belongs to the viewport.
    const html = getComputedStyle(document.documentElement);
    const body = document.body && getComputedStyle(document.body);
    const s = html.overflowX === 'visible' && html.overflowY === 'visible' && body ? body : html;
    return { x: s.overflowX, y: s.overflowY, body: s === body };
  };
  // The boxes that clip a node, innermost first; positioned descendants escape some of them.
  const clippers = (el, itself) => {
    const list = [];
    const roots = rootClips();
    let position = getComputedStyle(el).position;
    let e = itself ? el : parentOf(el);
    for (; e; e = parentOf(e)) {
      const s = getComputedStyle(e);
      const holds = s.transform !== 'none' || s.filter !== 'none' || s.perspective !== 'none' || /paint|strict|content/.test(s.contain);
      const escapes = e !== el && ((position === 'fixed' && !holds) || (position === 'absolute' && s.position === 'static' && !holds));
      if (!escapes) {
        const viewport = e === document.documentElement || (e === document.body && roots.body);
        const clips = s.overflowX !== 'visible' || s.overflowY !== 'visible';
        if (clips && !viewport) {
          const b = e.getBoundingClientRect();
          const l = b.left + e.clientLeft, t = b.top + e.clientTop;
          list.push({
            e, s,
            c: {
              l: s.overflowX === 'visible' ? -1e9 : l, r: s.overflowX === 'visible' ? 1e9 : l + (e.clientWidth || b.width),
              t: s.overflowY === 'visible' ? -1e9 : t, b: s.overflowY === 'visible' ? 1e9 : t + (e.clientHeight || b.height),
            },
          });
        }
        if (e !== el) position = s.position;
      }
    }
    return list;
  };
  const shownPart = (r, clips) => clips.reduce((part, c) => cutBy(part, c.c), cutBy(r, frameOf()));
  // Scrolls as a user can: what `overflow: hidden` holds back is put back.
  const scroll = (el) => {
    const before = [];
    for (let e = parentOf(el); e; e = parentOf(e)) before.push([e, e.scrollLeft, e.scrollTop]);
    const roots = rootClips();
    const root = document.scrollingElement;
    const rootBefore = root && [root.scrollLeft, root.scrollTop];
    el.scrollIntoView({ block: 'center', inline: 'nearest', behavior: 'instant' });
    for (const [e, left, top] of before) {
      if (e === root || e === document.body) continue;
      const s = getComputedStyle(e);
      if (s.overflowX === 'hidden' || s.overflowX === 'clip') e.scrollLeft = left;
      if (s.overflowY === 'hidden' || s.overflowY === 'clip') e.scrollTop = top;
    }
    if (root && (roots.x === 'hidden' || roots.x === 'clip')) root.scrollLeft = rootBefore[0];
    if (root && (roots.y === 'hidden' || roots.y === 'clip')) root.scrollTop = rootBefore[1];
    return () => {
      for (const [e, left, top] of before) { if (e.scrollLeft !== left) e.scrollLeft = left; if (e.scrollTop !== top) e.scrollTop = top; }
    };
  };
  // Brings a part of something larger than the window into its middle.
  const centre = (r) => {
    const root = document.scrollingElement, clips = rootClips();
    const held = (o) => o === 'hidden' || o === 'clip';
    if (root && !held(clips.y) && (r.top < 0 || r.bottom > innerHeight)) root.scrollTop += (r.top + r.bottom) / 2 - innerHeight / 2;
    if (root && !held(clips.x) && (r.left < 0 || r.right > innerWidth)) root.scrollLeft += (r.left + r.right) / 2 - innerWidth / 2;
  };
  // What is at a place, as deep as the roots around the element let us see: closed ones are known through it.
  const hitAt = (x, y, el) => {
    const roots = [];
    for (let r = el.getRootNode(); r && r.host; r = r.host.getRootNode()) roots.unshift(r);
    let h = document.elementFromPoint(x, y);
    for (;;) {
      const root = h && (h.shadowRoot || roots.find((r) => r.host === h));
      const inner = root && root.elementFromPoint(x, y);
      if (!inner || inner === h) return h;
      h = inner;
    }
  };
  const textsOf = (el) => {
    const found = [];
    if (el.nodeType === 3) return [el];
    const walker = document.createTreeWalker(el, NodeFilter.SHOW_TEXT);
    while (walker.nextNode() && found.length < 40) {
      const t = walker.currentNode;
      if (fold(t.data) && t.parentElement && !t.parentElement.closest('option, script, style, template, textarea')) found.push(t);
    }
    return found;
  };
  const backgroundOf = (e) => {
    for (; e; e = parentOf(e)) {
      const s = getComputedStyle(e);
      if (s.backgroundImage !== 'none') return null;
      const c = rgba(s.backgroundColor);
      if (!c) return null;
      if (c[3] >= 0.95) return c;
      if (c[3] > 0.05) return null;
    }
    return [255, 255, 255, 1];
  };
  // Why none of an element's text can be read, or null.
  const unreadable = (el) => {
    const own = el.nodeType === 1 && 'value' in el && typeof el.value === 'string' && /^(input|textarea)$/.test(el.localName);
    const parts = own ? (el.value ? [el] : []) : textsOf(el).map((t) => t.parentElement).filter(Boolean);
    let why = null;
    for (const e of parts) {
      const s = getComputedStyle(e);
      const c = rgba(s.webkitTextFillColor || s.color);
      if (!c || (s.backgroundClip || s.webkitBackgroundClip || '').includes('text')) return null;
      if (parseFloat(s.fontSize) < 2) { why = why || 'its text has a font size of ' + s.fontSize; continue; }
      if (c[3] < 0.1) { why = why || 'its text is transparent (' + (s.webkitTextFillColor || s.color) + ')'; continue; }
      const b = backgroundOf(e);
      if (b && s.textShadow === 'none' && [0, 1, 2].every((i) => Math.abs(c[i] - b[i]) <= 8)) {
        why = why || 'its text has the colour of its background, rgb(' + b.slice(0, 3).join(', ') + ')';
        continue;
      }
      return null;
    }
    if (why && el.nodeType === 1 && el.querySelector('img, svg, canvas, video')) return null;
    return why;
  };
  const hiddenByStyle = (el) => {
    const where = (e) => (e === el ? 'it' : 'its ancestor ' + tag(e));
    for (let e = el; e; e = parentOf(e)) {
      const s = getComputedStyle(e);
      if (s.display === 'none') return 'display: none on ' + where(e);
      if (parseFloat(s.opacity) < 0.1) return 'opacity ' + s.opacity + ' on ' + where(e);
      if (/opacity\((0(\.0\d*)?%?|[0-9](\.\d+)?%)\)/.test(s.filter)) return 'filter: ' + s.filter + ' on ' + where(e);
      if (e !== el && s.contentVisibility === 'hidden') return 'content-visibility: hidden on ' + where(e);
    }
    const s = getComputedStyle(el);
    if (s.visibility !== 'visible') {
      let e = el;
      while (parentOf(e) && getComputedStyle(parentOf(e)).visibility !== 'visible') e = parentOf(e);
      return 'visibility: ' + s.visibility + ' on ' + where(e);
    }
    return null;
  };
  const pointsOf = (rects, clips) => {
    const points = [];
    const picked = rects.length > 4 ? [rects[0], rects[1], rects[rects.length >> 1], rects[rects.length - 1]] : rects;
    for (const r of picked) {
      const part = shownPart(r, clips);
      if (area(part) <= 0) continue;
      for (const [fx, fy] of [[0.5, 0.5], [0.15, 0.5], [0.85, 0.5], [0.5, 0.2], [0.5, 0.8]]) {
        points.push({ x: part.l + (part.r - part.l) * fx, y: part.t + (part.b - part.t) * fy });
      }
    }
    return points;
  };
  const clippedReason = (el, union, clips) => {
    const own = el.getBoundingClientRect();
    if (clips.length && clips[0].e === el && (own.width === 0 || own.height === 0)) {
      return 'it has no size (' + Math.round(own.width) + '×' + Math.round(own.height) + ')';
    }
    let part = union;
    for (const c of clips) {
      part = cutBy(part, c.c);
      if (area(part) <= 0) return 'it is clipped away by ' + tag(c.e) + ' (overflow: ' + (c.s.overflowY === 'visible' ? c.s.overflowX : c.s.overflowY) + ')';
    }
    return 'it is off-screen at x ' + Math.round(union.l) + ', y ' + Math.round(union.t) + ' and cannot be scrolled to';
  };
  // A part of a frame's viewport, in ours.
  const outward = (el, part) => {
    const r = el.getBoundingClientRect(), s = getComputedStyle(el);
    const zx = el.offsetWidth ? r.width / el.offsetWidth : 1, zy = el.offsetHeight ? r.height / el.offsetHeight : 1;
    const x = r.left + (el.clientLeft + parseFloat(s.paddingLeft)) * zx, y = r.top + (el.clientTop + parseFloat(s.paddingTop)) * zy;
    const w = part.width || 0, h = part.height || 0;
    return { left: x + part.x * zx, top: y + part.y * zy, right: x + (part.x + w) * zx, bottom: y + (part.y + h) * zy, width: w * zx, height: h * zy };
  };
  const sight = (node, el, inner) => {
    if (!node.isConnected) return { reason: 'it has left the page' };
    const style = hiddenByStyle(el);
    if (style) return { reason: style };
    const boxesOf = () => (inner ? [outward(el, inner.part)] : rectsOf(node));
    let rects = boxesOf();
    if (!rects.length) return { reason: 'it has no size (' + (node.nodeType === 1 ? Math.round(el.getBoundingClientRect().width) + '×' + Math.round(el.getBoundingClientRect().height) : 'no box') + ')' };
    const ownBox = node.nodeType === 1 && [...node.getClientRects()].some((r) => r.width > 0 && r.height > 0);
    const measure = () => {
      const boxes = boxesOf().map(box);
      const clips = clippers(el, !inner && !ownBox);
      const union = boxes.reduce((u, r) => ({ l: Math.min(u.l, r.l), t: Math.min(u.t, r.t), r: Math.max(u.r, r.r), b: Math.max(u.b, r.b) }));
      const parts = boxes.map((r) => shownPart(r, clips));
      return { boxes, clips, union, shown: parts.reduce((a, r) => a + area(r), 0), all: boxes.reduce((a, r) => a + area(r), 0), parts };
    };
    let m = measure();
    let back = null;
    if (options.scroll && m.shown < 0.9 * Math.min(m.all, innerWidth * innerHeight)) {
      back = scroll(el);
      if (inner) centre(boxesOf()[0]);
      m = measure();
    }
    const done = (facts) => { if (back && !options.keep) back(); return facts; };
    if (m.shown <= 0) return done({ reason: clippedReason(el, m.union, m.clips) });
    const largest = m.parts.reduce((a, r) => (area(r) > area(a) ? r : a));
    const w = largest.r - largest.l, h = largest.b - largest.t;
    if ((w < 2 || h < 2) && el.localName !== 'hr') return done({ reason: 'only ' + Math.round(w) + '×' + Math.round(h) + ' pixels of it show' });
    const through = getComputedStyle(el).pointerEvents === 'none';
    const shadowHost = el.getRootNode().host || null;
    const label = (h2) => h2 && h2.closest && h2.closest('label') && h2.closest('label').control === el;
    const mine = (h2) => h2 === el || within(h2, el) || label(h2) || (h2 && h2 === shadowHost) || (through && h2 && within(el, h2));
    const points = pointsOf(m.boxes, m.clips);
    if (inner && inner.point) { const p = outward(el, inner.point); points.unshift({ x: p.left, y: p.top }); }
    let over = null;
    const free = points.filter((p) => { const h2 = hitAt(p.x, p.y, el); if (mine(h2)) return true; over = over || h2; return false; });
    const round = (r) => ({ x: r.l, y: r.t, width: r.r - r.l, height: r.b - r.t });
    const facts = { rect: round(m.union), part: round(largest), point: free[0] || null, over: over ? tag(over) : null };
    if (free.length < 0.3 * points.length) {
      let clip = null;
      for (let e = el; e; e = parentOf(e)) { const s = getComputedStyle(e); if (s.clipPath !== 'none' || (s.clip !== 'auto' && s.position === 'absolute')) { clip = e; break; } }
      facts.reason = clip && over && within(el, over) ? 'it is cut away by a clip on ' + (clip === el ? 'it' : 'its ancestor ' + tag(clip))
        : over && within(el, over) ? 'it is painted behind its ancestor ' + tag(over)
        : 'it is covered by ' + tag(over);
      return done(facts);
    }
    if (inner) return done(facts);
    const words = textsOf(node);
    const rectsOfText = (t) => { const r = document.createRange(); r.selectNodeContents(t); return [...r.getClientRects()].map(box); };
    const bare = el.nodeType === 1 && getComputedStyle(el).backgroundImage === 'none' && !el.querySelector('img, svg, canvas, video');
    if (words.length && bare && words.length < 40) {
      const some = words.some((t) => rectsOfText(t).some((r) => area(shownPart(r, clippers(t.parentElement, true))) > 0));
      if (!some) { facts.reason = 'its text is outside of what it shows (text-indent, overflow or font size)'; return done(facts); }
    }
    const unread = unreadable(node.nodeType === 1 ? el : node);
    if (unread) facts.reason = unread;
    return done(facts);
  };
  const valueOf = (el) => {
    if (el.localName === 'select') return el.selectedOptions.length ? fold(el.selectedOptions[0].label) : '';
    if ('value' in el && typeof el.value === 'string' && /^(input|textarea)$/.test(el.localName)) return el.value;
    if (el.isContentEditable) return el.innerText;
    return null;
  };
  return nodes.map((node, index) => {
    const el = node.nodeType === 1 ? node : node.parentElement;
    if (!el) return { reason: 'it has left the page', text: '', content: '', tag: '' };
    const text = node.nodeType === 1 ? node.innerText : node.data;
    const facts = options.look ? sight(node, el, options.inner && options.inner[index]) : {};
    return Object.assign(facts, {
      text: fold(text).slice(0, 20000), content: fold(node.textContent).slice(0, 20000), value: valueOf(el), tag: tag(el),
      readonly: !!el.readOnly, kind: el.localName === 'input' ? el.type : el.localName,
    });
  });
}
