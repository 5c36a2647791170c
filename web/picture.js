// The stage and the lanes as one SVG picture that needs no other file.
import { RECORDS } from "./world.js";
import { COLOURS } from "./lanes.js";
import { hue } from "./stage.js";

const WIDTH = 600;
const LANE = 16;

function bar(x, y, width, height, fill) {
  return `<rect x="${x.toFixed(2)}" y="${y}" width="${width.toFixed(2)}" height="${height}" fill="${fill}"/>`;
}

function lanes(world, frame, end) {
  const nodes = world.settings.nodes + world.settings.spare;
  const x = (at) => (at / end) * WIDTH;
  const parts = [];
  for (const record of world.records) {
    const [from, wide] = [x(record.from), Math.max(x(record.to) - x(record.from), 1)];
    if (record.kind <= RECORDS.acted && record.node <= nodes)
      parts.push(bar(from, (record.node - 1) * LANE + (record.kind === RECORDS.acted ? 2 : 6), wide, record.kind === RECORDS.acted ? 12 : 4, hue(record.node)));
    else if (record.kind in COLOURS) parts.push(bar(from, nodes * LANE + 4, wide, 10, COLOURS[record.kind]));
    else if (record.kind === RECORDS.fault) parts.push(bar(from, 0, 1, nodes * LANE, "#cf222e"));
  }
  for (let id = 1; id <= nodes; id++) parts.push(`<text x="2" y="${id * LANE - 4}" class="note lane">${id}</text>`);
  return parts.join("");
}

// `stage`: the SVG element; its texts were set as text, and the serializer escapes them.
export function picture(stage, world, frame, end) {
  const copy = stage.cloneNode(true);
  for (const hidden of copy.querySelectorAll('[visibility="hidden"]')) hidden.remove();
  const inner = [...copy.childNodes].map((child) => new XMLSerializer().serializeToString(child)).join("");
  const height = 640 + (world.settings.nodes + world.settings.spare) * LANE;
  const style = document.querySelector("style").textContent.replaceAll("<", "");
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${height}" font-family="sans-serif"><style>${style}</style>
<rect width="${WIDTH}" height="${height}" class="paper"/>${inner}<g transform="translate(0 610)">${lanes(world, frame, end)}</g></svg>\n`;
}
