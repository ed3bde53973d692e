"use strict";
// What a person writes into the fields of a page is kept by the browser, and can be saved with the page.

const fields = [...document.querySelectorAll("textarea")], {keep} = document.documentElement.dataset;
const place = field => `tpnn ${keep} ${field.getAttribute("aria-label")}`;
const stored = (method, ...items) => { try { return localStorage[method](...items); } catch { return null; } }; // a frame may have none

for (const field of fields) {
  field.value = stored("getItem", place(field)) ?? field.value;
  field.oninput = () => stored("setItem", place(field), field.value);
}

// The page with the texts in it, as a file of its own.
function save() {
  fields.forEach(field => { field.textContent = field.value; });
  const text = "<!doctype html>\n" + document.documentElement.outerHTML, link = document.createElement("a");
  Object.assign(link, {href: URL.createObjectURL(new Blob([text], {type: "text/html"})), download: `${document.title.toLowerCase()}.html`});
  link.click();
  URL.revokeObjectURL(link.href);
}

document.getElementById("save-page").onclick = save;
