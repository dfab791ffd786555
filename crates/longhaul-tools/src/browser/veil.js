// Hides a node, or shows it again without starting a transition.
function veil(node, on) {
  const el = node.nodeType === 1 ? node : node.parentElement;
  const root = el.getRootNode();
  const sheet = globalThis.longhaulVeil = globalThis.longhaulVeil || new CSSStyleSheet();
  let path = '';
  for (let e = el; e; e = e.parentElement) {
    const at = e.parentNode && e.parentNode.children ? [...e.parentNode.children].indexOf(e) + 1 : 1;
    path = ':nth-child(' + at + ')' + (path ? '>' + path : '');
  }
  if (root === document) path = path.replace(/^:nth-child\(\d+\)/, ':root');
  const strong = path + ':not(#longhaul#longhaul#longhaul)';
  if (on) {
    sheet.replaceSync(strong + '{opacity:0!important;transition:none!important}');
    root.adoptedStyleSheets = [...root.adoptedStyleSheets, sheet];
  } else {
    sheet.replaceSync(strong + '{transition:none!important}');
    getComputedStyle(el).opacity;
    root.adoptedStyleSheets = [...root.adoptedStyleSheets].filter((s) => s !== sheet);
  }
}
