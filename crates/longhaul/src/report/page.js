// Comfort only: enlarging pictures, filtering cards, opening details for print. The page is complete without it.
(() => {
  const box = document.getElementById('lightbox');
  const big = box.querySelector('img');
  const says = box.querySelector('p');
  for (const button of document.querySelectorAll('button.zoom')) {
    button.addEventListener('click', () => {
      const small = button.querySelector('img');
      big.src = small.src;
      big.alt = small.alt;
      says.textContent = small.alt;
      box.showModal();
    });
  }
  box.addEventListener('click', () => box.close());

  const filters = document.querySelector('.filters');
  if (filters) {
    filters.hidden = false;
    const buttons = [...filters.querySelectorAll('button')];
    for (const button of buttons) {
      button.addEventListener('click', () => {
        const wanted = button.dataset.filter;
        for (const other of buttons) other.setAttribute('aria-pressed', String(other === button));
        for (const card of document.querySelectorAll('.card')) {
          const { standing, category } = card.dataset;
          card.hidden = wanted !== '' && wanted !== standing && wanted !== `category:${category}`;
        }
      });
    }
  }

  addEventListener('beforeprint', () => {
    for (const details of document.querySelectorAll('details')) details.open = true;
  });
})();
