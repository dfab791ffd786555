const $ = (id) => document.getElementById(id);
let notes = [];

async function call(method, path, body) {
  const answer = await fetch(path, { method, headers: { "Content-Type": "application/json" }, body: body && JSON.stringify(body) });
  return answer.json();
}

async function load() {
  notes = await call("GET", "/api/notes");
  draw();
}

function item(note) {
  const li = document.createElement("li");
  const text = document.createElement("span");
  text.className = "text";
  text.textContent = note.text;
  const pin = document.createElement("input");
  pin.type = "checkbox";
  pin.checked = note.pinned;
  pin.setAttribute("aria-label", `Pin ${note.text}`);
  pin.addEventListener("change", async () => { await call("PUT", `/api/notes/${note.id}`, { pinned: pin.checked }); await load(); });
  const edit = button(`Edit ${note.text}`, "Edit", () => openEditor(note));
  edit.className = "edit";
  const del = button(`Delete ${note.text}`, "Delete", () => remove(note));
  del.className = "delete";
  li.append(pin, text, edit, del);
  return li;
}

function button(label, shown, act) {
  const made = document.createElement("button");
  made.type = "button";
  made.textContent = shown;
  made.setAttribute("aria-label", label);
  made.addEventListener("click", act);
  return made;
}

function draw() {
  const wanted = $("search").value.trim().toLowerCase();
  const shown = notes.filter((note) => note.text.toLowerCase().includes(wanted));
  $("pinned").replaceChildren(...shown.filter((note) => note.pinned).map(item));
  $("others").replaceChildren(...shown.filter((note) => !note.pinned).map(item));
  $("total").textContent = notes.length === 1 ? "1 note" : `${notes.length} notes`;
}

async function add(text) {
  if (text.trim() === "") {
    $("problem").textContent = "Write something first";
    $("text").focus();
    return;
  }
  $("problem").textContent = "";
  await call("POST", "/api/notes", { text });
  $("text").value = "";
  $("text").focus();
  await load();
}

async function remove(note) {
  if (!confirm(`Delete "${note.text}"?`)) return;
  await call("DELETE", `/api/notes/${note.id}`);
  await load();
}

function openEditor(note) {
  $("edited").value = note.text;
  $("editor").onclose = async () => {
    if ($("editor").returnValue !== "save") return;
    await call("PUT", `/api/notes/${note.id}`, { text: $("edited").value });
    await load();
  };
  $("editor").returnValue = "";
  $("editor").showModal();
}

$("add").addEventListener("submit", (event) => { event.preventDefault(); add($("text").value); });
$("search").addEventListener("input", draw);
$("import").addEventListener("change", async () => {
  const lines = (await $("import").files[0].text()).split("\n").filter((line) => line.trim());
  for (const line of lines) await call("POST", "/api/notes", { text: line });
  await load();
});
load();
