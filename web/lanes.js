// The lanes below the stage: who led and who acted over time, and how many acted, growing with the run.
import { RECORDS } from "./world.js";
import { hue } from "./stage.js";

const STRIP = 12;
export const COLOURS = { [RECORDS.noneActed]: "#8b949e66", [RECORDS.oneActed]: "#2da44e", [RECORDS.twoActed]: "#cf222e" };

export function drawLanes(canvas, world, frame, end) {
  const ratio = window.devicePixelRatio || 1;
  const [width, height] = [canvas.clientWidth, canvas.clientHeight];
  if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
  }
  const paint = canvas.getContext("2d");
  paint.setTransform(ratio, 0, 0, ratio, 0, 0);
  paint.clearRect(0, 0, width, height);
  const nodes = world.settings.nodes + world.settings.spare;
  const lane = (height - STRIP - 4) / nodes;
  const x = (at) => (at / end) * width;
  for (let id = 1; id <= nodes; id++) {
    paint.fillStyle = "#8b949e44";
    paint.fillRect(0, lane * (id - 0.5), x(frame.now), 1);
  }
  for (const record of world.records) {
    const [from, wide] = [x(record.from), Math.max(x(record.to) - x(record.from), 1)];
    if (record.kind === RECORDS.led || record.kind === RECORDS.acted) {
      const bar = lane * (record.kind === RECORDS.acted ? 0.7 : 0.35);
      paint.fillStyle = hue(record.node);
      paint.globalAlpha = record.kind === RECORDS.acted ? 1 : 0.5;
      paint.fillRect(from, lane * (record.node - 0.5) - bar / 2, wide, bar);
      paint.globalAlpha = 1;
    } else if (record.kind === RECORDS.fault) {
      paint.fillStyle = "#cf222e";
      paint.fillRect(from, 0, 1, height - STRIP);
    }
  }
  for (const kind of [RECORDS.noneActed, RECORDS.oneActed, RECORDS.twoActed])
    for (const record of world.records)
      if (record.kind === kind) {
        paint.fillStyle = COLOURS[kind];
        paint.fillRect(x(record.from), height - STRIP, Math.max(x(record.to) - x(record.from), kind === RECORDS.twoActed ? 2 : 0), STRIP);
      }
}
