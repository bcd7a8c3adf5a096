// Draws a lane: messages move from the left, where they were parked, to the line at the right, where they are due.

const COLUMN = 6;
const LINE = 12; // pixels to the right of the line, for what is overdue

export class Lane {
  constructor(canvas) {
    this.canvas = canvas;
    this.context = canvas.getContext("2d");
    this.width = 0;
  }

  // The colours are the page's, from CSS.
  resize() {
    const scale = devicePixelRatio || 1;
    const { clientWidth, clientHeight } = this.canvas;
    this.width = clientWidth;
    this.height = clientHeight;
    this.canvas.width = Math.round(clientWidth * scale);
    this.canvas.height = Math.round(clientHeight * scale);
    this.context.setTransform(scale, 0, 0, scale, 0, 0);
    const style = getComputedStyle(this.canvas);
    // Computed colours, read from properties that have no other use on a canvas.
    this.colours = { far: style.color, near: style.textDecorationColor, late: style.caretColor, line: style.columnRuleColor };
  }

  // The number of messages in each column at this instant; the last column has the overdue ones.
  columns(curve, spanMs, now) {
    const columns = Math.max(Math.floor((this.width - LINE) / COLUMN), 1);
    const found = new Float64Array(columns + 1);
    const at = (due) => (due <= now ? columns : Math.max(columns - 1 - Math.floor(((due - now) / spanMs) * columns), 0));
    let before = null;
    for (const [due, total] of curve) {
      const added = total - (before ? before[1] : 0);
      const last = at(due);
      const first = before && added > 1 ? at(before[0]) : last;
      const share = added / (first - last + 1);
      for (let column = last; column <= first; column++) found[column] += share;
      before = [due, total];
    }
    return found;
  }

  draw(curve, spanMs, now) {
    if (this.canvas.clientWidth !== this.width) this.resize();
    if (!this.width) return; // not shown
    const { context, width, height, colours } = this;
    const middle = height / 2;
    context.clearRect(0, 0, width, height);
    context.fillStyle = colours.line;
    context.fillRect(0, middle - 0.5, width - LINE, 1);
    context.fillRect(width - LINE, 3, 2, height - 6);
    const found = this.columns(curve, spanMs, now);
    const last = found.length - 1;
    for (let column = 0; column <= last; column++) {
      const count = found[column];
      if (count <= 0) continue;
      const tall = Math.min(4 + Math.log2(1 + count) * 2.6, height - 2);
      context.fillStyle = column === last ? colours.late : column > last * 0.88 ? colours.near : colours.far;
      context.globalAlpha = Math.min(0.35 + count, 1);
      context.beginPath();
      context.roundRect(column === last ? width - LINE + 5 : column * COLUMN, middle - tall / 2, COLUMN - 1, tall, 2);
      context.fill();
    }
    context.globalAlpha = 1;
  }
}
