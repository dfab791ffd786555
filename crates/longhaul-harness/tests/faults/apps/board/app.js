const $ = (id) => document.getElementById(id);
const COLUMNS = ["todo", "doing", "done"];
const FIRST = { title: "My board", dark: false, cards: [{ name: "Read the plan", column: "todo", high: false }, { name: "Write the page", column: "doing", high: true }] };
let board = JSON.parse(localStorage.getItem("board") || "null") || FIRST;

function save() {
  localStorage.setItem("board", JSON.stringify(board));
  draw();
}

function draw() {
  $("title").textContent = board.title;
  document.body.classList.toggle("dark", board.dark);
  $("theme").setAttribute("aria-checked", String(board.dark));
  const wanted = $("filter").value;
  for (const section of document.querySelectorAll("[data-column]")) {
    const cards = board.cards.filter((card) => card.column === section.dataset.column);
    const shown = cards.filter((card) => wanted === "Any" || (wanted === "High") === card.high);
    section.querySelector("ul").replaceChildren(...shown.map(draw_card));
    section.querySelector(".count").textContent = cards.length === 1 ? "1 card" : `${cards.length} cards`;
  }
}

function draw_card(card) {
  const li = document.createElement("li");
  li.textContent = card.name;
  li.className = card.high ? "card high" : "card";
  li.setAttribute("aria-label", card.name);
  li.tabIndex = 0;
  li.draggable = true;
  li.addEventListener("dragstart", (event) => event.dataTransfer.setData("text/plain", card.name));
  li.addEventListener("keydown", (event) => {
    const by = event.key === "ArrowRight" ? 1 : event.key === "ArrowLeft" ? -1 : 0;
    const to = COLUMNS[COLUMNS.indexOf(card.column) + by];
    if (by !== 0 && to) move(card.name, to);
  });
  li.addEventListener("mouseenter", () => {
    $("tip").textContent = card.high ? `${card.name}: high priority` : `${card.name}: low priority`;
    $("tip").hidden = false;
  });
  li.addEventListener("mouseleave", () => { $("tip").hidden = true; });
  return li;
}

function move(name, column) {
  board.cards.find((card) => card.name === name).column = column;
  save();
}

for (const section of document.querySelectorAll("[data-column]")) {
  section.addEventListener("dragover", (event) => event.preventDefault());
  section.addEventListener("drop", (event) => {
    event.preventDefault();
    move(event.dataTransfer.getData("text/plain"), section.dataset.column);
  });
}

$("add").addEventListener("submit", (event) => {
  event.preventDefault();
  const name = $("name").value.trim();
  if (!name) return;
  if (board.cards.some((card) => card.name === name)) {
    alert(`There is a card "${name}" already`);
    return;
  }
  board.cards.push({ name, column: "todo", high: $("high").checked });
  $("name").value = "";
  $("high").checked = false;
  save();
});

$("rename").addEventListener("click", () => {
  const title = prompt("Name of the board", board.title);
  if (title) {
    board.title = title;
    save();
  }
});

$("theme").addEventListener("click", () => {
  board.dark = !board.dark;
  save();
});

$("filter").addEventListener("change", draw);

customElements.define("x-counter", class extends HTMLElement {
  connectedCallback() {
    const root = this.attachShadow({ mode: "closed" });
    root.innerHTML = '<button id="laugh">Cheer</button> <output id="cheers" aria-label="Cheers">0</output>';
    let cheers = 0;
    root.querySelector("button").addEventListener("click", () => {
      cheers += 1;
      root.querySelector("output").textContent = String(cheers);
    });
  }
});

draw();
