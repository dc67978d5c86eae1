/* On a phone a table whose words do not fit is a block a row, each cell with the name of its column. */
const narrow = matchMedia("(max-width: 40rem)");
function fit() {
  for (const table of document.querySelectorAll(".md-typeset table:not([class])")) {
    const names = Array.from(table.tHead.rows[0].cells, (cell) => cell.textContent);
    for (const row of table.tBodies[0].rows)
      Array.from(row.cells).forEach((cell, place) => { cell.dataset.name = names[place]; });
    delete table.dataset.stacked;
    if (narrow.matches && table.offsetWidth > table.closest("article").clientWidth) table.dataset.stacked = "";
  }
}
addEventListener("load", fit);
narrow.addEventListener("change", fit);
