// Finds elements with this text or label that are in the document but shown to nobody, and says why.
function unshown(wanted) {
  const fold = (s) => (s || '').replace(/\s+/g, ' ').trim().toLowerCase();
  wanted = wanted.toLowerCase();
  const tag = (e) => '<' + e.localName + (e.id ? ' id="' + e.id + '"' : '') + (e.className && e.className.slice ? ' class="' + e.className.slice(0, 60) + '"' : '') + '>';
  for (const e of document.querySelectorAll('body *')) {
    if (e.childElementCount > 3 || /^(script|style|template)$/.test(e.localName)) continue;
    const label = e.getAttribute('aria-label') || e.getAttribute('placeholder') || e.getAttribute('title');
    if (fold(e.textContent) !== wanted && fold(label) !== wanted) continue;
    if ([...e.children].some((c) => fold(c.textContent) === wanted)) continue;
    for (let a = e; a; a = a.parentElement) {
      const where = a === e ? '' : ' on its ancestor ' + tag(a);
      const s = getComputedStyle(a);
      if (a.getAttribute('aria-hidden') === 'true') return tag(e) + ' has that text, but aria-hidden' + where;
      if (s.display === 'none') return tag(e) + ' has that text, but display: none' + where;
      if (s.visibility !== 'visible') return tag(e) + ' has that text, but visibility: ' + s.visibility + where;
      if (a.inert) return tag(e) + ' has that text, but it is inert' + where;
    }
    return tag(e) + ' has that text, but another role';
  }
  return null;
}
