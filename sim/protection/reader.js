// Reads a mechanism of `lppm-sim export-mechanism` and draws reports from it. No dependencies; browsers and Node.

/** @typedef {{outputs: number[], cumulative: number[]}} Row */
/** @typedef {[number, number]} Place latitude and longitude in degrees */
/** @typedef {{output: number, place: Place | null, cells: Place[]}} Report */

export class Mechanism {
  /** @param {any} data the parsed JSON */
  constructor(data) {
    if (data.format !== "lppm-sim mechanism" || data.version !== 1) throw new Error("not a mechanism of version 1");
    this.data = data;
  }

  /** Return the cell of a position, -1 outside the region.
   * @param {number} lat @param {number} lon */
  cellOf(lat, lon) {
    const grid = this.data.grid;
    const col = slot((lon - grid.west) * grid.km_per_degree[1], grid.col_edges_km, grid.border_km);
    const row = slot((lat - grid.south) * grid.km_per_degree[0], grid.row_edges_km, grid.border_km);
    return row < 0 || col < 0 ? -1 : row * grid.cols + col;
  }

  /** Return the output of a cell for uniform integers in [0, 2^bits), by default of the system's secure generator.
   * @param {number} cell @param {number[]} uniforms */
  draw(cell, uniforms = [uniform(this.data.bits), uniform(this.data.bits)]) {
    const { table, grid } = this.data;
    const output =
      table.kind === "rows"
        ? select(table.rows[cell], uniforms[0])
        : select(table.rows[Math.floor(cell / grid.cols)], uniforms[0]) * grid.cols +
          select(table.cols[cell % grid.cols], uniforms[1]);
    return table.remap === null ? output : table.remap[output];
  }

  /** Return the report of a position, null outside the region; no place and no cells: report nothing.
   * @param {number} lat @param {number} lon @returns {Report | null} */
  report(lat, lon) {
    const cell = this.cellOf(lat, lon);
    return cell < 0 ? null : this.meaning(this.draw(cell));
  }

  /** Return the places that an output reports.
   * @param {number} output @returns {Report} */
  meaning(output) {
    const { grid, outputs } = this.data;
    if (outputs.places !== null) return { output, place: outputs.places[output][0], cells: outputs.places[output][1] };
    return { output, place: [grid.row_lat[Math.floor(output / grid.cols)], grid.col_lon[output % grid.cols]], cells: [] };
  }
}

/** @param {number} km @param {number[]} edges @param {number} border */
function slot(km, edges, border) {
  if (!(km >= -border && km <= edges[edges.length - 1] + border)) return -1;
  let index = 0;
  while (index < edges.length - 2 && edges[index + 1] <= km) index++;
  return index;
}

/** @param {Row} row @param {number} uniform */
function select(row, uniform) {
  return row.outputs[row.cumulative.findIndex((weight) => weight > uniform)];
}

/** @param {number} bits between 32 and 53 */
function uniform(bits) {
  const [low, high] = crypto.getRandomValues(new Uint32Array(2));
  return (high % 2 ** (bits - 32)) * 2 ** 32 + low;
}
