"use strict";
// Predictions of a model in the page itself: the operators of its ONNX graph, and its predictive distributions.
// A tensor is { type, shape, data }; integers are kept as float64, which holds them exactly up to 2^53.
const usnrtEvaluator = (() => {
  const ARRAYS = { float64: Float64Array, float32: Float32Array, int: Float64Array, bool: Uint8Array, text: Array };
  const STORED = { uint8: Uint8Array, int32: Int32Array, float64: Float64Array, float32: Float32Array };
  const sizeOf = (shape) => shape.reduce((product, length) => product * length, 1);
  const tensor = (type, shape, data) => ({ type, shape, data: data || new ARRAYS[type](sizeOf(shape)) });
  const scalar = (type, value) => tensor(type, [], ARRAYS[type].from([value]));

  // ---- constants ----

  function halves(bits) {  // float16
    return Float32Array.from(bits, (b) => {
      const sign = b & 0x8000 ? -1 : 1, exponent = (b >> 10) & 31, fraction = b & 1023;
      if (exponent === 31) return fraction ? NaN : sign * Infinity;
      return sign * (exponent ? 2 ** (exponent - 15) * (1 + fraction / 1024) : 2 ** -14 * (fraction / 1024));
    });
  }

  function constant({ type, shape, values, stored, base64 }) {
    if (values) return tensor(type, shape, type === "text" ? values : ARRAYS[type].from(values));
    const bytes = Uint8Array.from(atob(base64), (letter) => letter.charCodeAt(0));
    const data = stored === "float16" ? halves(new Uint16Array(bytes.buffer)) : new STORED[stored](bytes.buffer);
    return tensor(type, shape, data instanceof ARRAYS[type] ? data : ARRAYS[type].from(data));
  }

  // ---- shapes ----

  const stepsOf = (shape) => shape.map((_, i) => sizeOf(shape.slice(i + 1)));
  const axisOf = (axis, rank) => (axis < 0 ? axis + rank : axis);

  function commonShape(shapes) {
    const rank = Math.max(...shapes.map((shape) => shape.length));
    return Array.from({ length: rank }, (_, i) => {
      const lengths = shapes.map((shape) => shape[i - rank + shape.length] ?? 1);
      return lengths.includes(0) ? 0 : Math.max(...lengths);
    });
  }

  // For each place in `shape` the place in a tensor that is broadcast to it.
  function places(from, shape) {
    const n = sizeOf(shape), size = sizeOf(from);
    if (size === n) return null;
    const offset = shape.length - from.length, own = stepsOf(from);
    const steps = shape.map((_, i) => (i < offset || from[i - offset] === 1 ? 0 : own[i - offset]));
    const found = new Int32Array(n), at = new Array(shape.length).fill(0);
    for (let i = 0, place = 0; i < n; i++) {
      found[i] = place;
      for (let axis = shape.length - 1; axis >= 0; axis--) {
        place += steps[axis];
        if (++at[axis] < shape[axis]) break;
        place -= steps[axis] * shape[axis];
        at[axis] = 0;
      }
    }
    return found;
  }

  function broadcast(type, tensors, f) {
    const shape = commonShape(tensors.map((t) => t.shape)), result = tensor(type, shape), [a, b, c] = tensors;
    const at = tensors.map((t) => (t.data.length === 1 ? new Int32Array(sizeOf(shape)) : places(t.shape, shape)));
    const get = (t, i, k) => t.data[at[k] ? at[k][i] : i];
    if (c) for (let i = 0; i < result.data.length; i++) result.data[i] = f(get(a, i, 0), get(b, i, 1), get(c, i, 2));
    else for (let i = 0; i < result.data.length; i++) result.data[i] = f(get(a, i, 0), get(b, i, 1));
    return result;
  }

  function each(x, f, type = x.type) {
    const result = tensor(type, x.shape);
    for (let i = 0; i < x.data.length; i++) result.data[i] = f(x.data[i]);
    return result;
  }

  // A tensor seen as [before, length of the axis, after].
  function around(shape, axis) {
    const place = axisOf(axis, shape.length);
    return [sizeOf(shape.slice(0, place)), shape[place], sizeOf(shape.slice(place + 1)), place];
  }

  function reduced(x, axes, keep, start, step, end = (value) => value) {
    const drop = (axes ?? x.shape.map((_, i) => i)).map((axis) => axisOf(axis, x.shape.length));
    const kept = x.shape.map((length, i) => (drop.includes(i) ? 1 : length));
    const result = new Float64Array(sizeOf(kept)).fill(start), at = places(kept, x.shape);
    for (let i = 0; i < x.data.length; i++) {
      const place = at ? at[i] : i;
      result[place] = step(result[place], x.data[i]);
    }
    const count = drop.reduce((product, axis) => product * x.shape[axis], 1);
    const shape = keep ? kept : x.shape.filter((_, i) => !drop.includes(i));
    return tensor(x.type, shape, ARRAYS[x.type].from(result, (value) => end(value, count)));
  }

  function gathered(x, indices, axis) {
    const [before, length, after, place] = around(x.shape, axis);
    const shape = [...x.shape.slice(0, place), ...indices.shape, ...x.shape.slice(place + 1)];
    const result = tensor(x.type, shape), n = indices.data.length;
    for (let b = 0, to = 0; b < before; b++) {
      for (let i = 0; i < n; i++) {
        const from = (b * length + axisOf(indices.data[i], length)) * after;
        for (let k = 0; k < after; k++) result.data[to++] = x.data[from + k];
      }
    }
    return result;
  }

  function sliced(x, axis, from, to) {
    const [before, length, after, place] = around(x.shape, axis);
    const first = Math.min(from < 0 ? from + length : from, length);
    const last = Math.max(Math.min(to < 0 ? to + length : to, length), first);
    const result = tensor(x.type, [...x.shape.slice(0, place), last - first, ...x.shape.slice(place + 1)]);
    for (let b = 0, i = 0; b < before; b++) {
      for (let k = (b * length + first) * after; k < (b * length + last) * after; k++) result.data[i++] = x.data[k];
    }
    return result;
  }

  function joined(tensors, axis) {
    const place = axisOf(axis, tensors[0].shape.length), parts = tensors.map((t) => around(t.shape, place));
    const shape = [...tensors[0].shape];
    shape[place] = parts.reduce((sum, part) => sum + part[1], 0);
    const result = tensor(tensors[0].type, shape);
    for (let b = 0, to = 0; b < parts[0][0]; b++) {
      tensors.forEach((t, i) => {
        const width = parts[i][1] * parts[i][2];
        for (let k = b * width; k < (b + 1) * width; k++) result.data[to++] = t.data[k];
      });
    }
    return result;
  }

  function product(a, b) {
    const [n, m] = a.shape.slice(-2), p = b.shape.at(-1);
    const batch = commonShape([a.shape.slice(0, -2), b.shape.slice(0, -2)]), count = sizeOf(batch);
    const ofA = places(a.shape.slice(0, -2), batch), ofB = places(b.shape.slice(0, -2), batch);
    const result = tensor(a.type, [...batch, n, p]), sums = new Float64Array(p);
    for (let c = 0; c < count; c++) {
      const left = (ofA ? ofA[c] : c) * n * m, right = (ofB ? ofB[c] : c) * m * p;
      for (let i = 0; i < n; i++) {
        sums.fill(0);
        for (let k = 0; k < m; k++) {
          const factor = a.data[left + i * m + k];
          if (factor === 0) continue;
          for (let j = 0, at = right + k * p; j < p; j++) sums[j] += factor * b.data[at + j];
        }
        result.data.set(sums, (c * n + i) * p);
      }
    }
    return result;
  }

  function topK(x, k, { axis = -1, largest = 1 }) {
    const [before, length, after, place] = around(x.shape, axis), shape = [...x.shape];
    shape[place] = k;
    const values = tensor(x.type, shape), indices = tensor("int", shape), sign = largest ? -1 : 1;
    for (let b = 0; b < before; b++) {
      for (let c = 0; c < after; c++) {
        const own = Array.from({ length }, (_, i) => x.data[(b * length + i) * after + c]);
        const order = own.map((_, i) => i).sort((i, j) => (own[i] === own[j] ? i - j : sign * (own[i] < own[j] ? -1 : 1)));
        for (let i = 0; i < k; i++) {
          values.data[(b * k + i) * after + c] = own[order[i]];
          indices.data[(b * k + i) * after + c] = order[i];
        }
      }
    }
    return [values, indices];
  }

  const forests = new WeakMap();  // nodes by their places, by the array of their trees

  function forestOf(attributes) {
    const { nodes_treeids: tree, nodes_nodeids: id, nodes_truenodeids: yes, nodes_falsenodeids: no } = attributes;
    if (forests.has(tree)) return forests.get(tree);
    const root = [], at = new Map(), key = (t, node) => t * 2 ** 26 + node;
    tree.forEach((t, i) => { root[t] ??= i; at.set(key(t, id[i]), i); });
    const left = Array.from(tree, (t, i) => at.get(key(t, yes[i]))), right = Array.from(tree, (t, i) => at.get(key(t, no[i])));
    const target = [], weight = [];
    attributes.target_treeids.forEach((t, i) => {
      const node = at.get(key(t, attributes.target_nodeids[i]));
      [target[node], weight[node]] = [attributes.target_ids[i], attributes.target_weights[i]];
    });
    const forest = { root, left, right, target, weight, value: Float32Array.from(attributes.nodes_values) };
    forests.set(tree, forest);
    return forest;
  }

  function treeEnsemble(x, attributes) {
    const { nodes_featureids: feature, nodes_modes: mode, n_targets: n } = attributes, forest = forestOf(attributes);
    const [rows, width] = x.shape, result = tensor("float32", [rows, n]);
    for (let row = 0; row < rows; row++) {
      for (let node of forest.root) {
        while (mode[node] !== "LEAF") node = (x.data[row * width + feature[node]] <= forest.value[node] ? forest.left : forest.right)[node];
        result.data[row * n + forest.target[node]] += forest.weight[node];
      }
    }
    return result;
  }

  // ---- operators ----

  const arithmetic = {
    Add: (a, b) => a + b, Sub: (a, b) => a - b, Mul: (a, b) => a * b, Max: (a, b) => Math.max(a, b),
    Min: (a, b) => Math.min(a, b), Sum: (a, b) => a + b,
  };
  const comparisons = {
    Equal: (a, b) => a === b, Less: (a, b) => a < b, LessOrEqual: (a, b) => a <= b, Greater: (a, b) => a > b,
    GreaterOrEqual: (a, b) => a >= b, And: (a, b) => a & b, Or: (a, b) => a | b,
  };
  const functions = {
    Abs: Math.abs, Exp: Math.exp, Log: Math.log, Sqrt: Math.sqrt, Sign: Math.sign, Tanh: Math.tanh,
    Relu: (v) => (v < 0 ? 0 : v), Softplus: (v) => Math.max(v, 0) + Math.log1p(Math.exp(-Math.abs(v))),
  };
  const tests = { IsNaN: (v) => v !== v, IsInf: (v) => Math.abs(v) === Infinity, Not: (v) => !v };
  const reductions = {
    ReduceSum: [0, (sum, v) => sum + v], ReduceSumSquare: [0, (sum, v) => sum + v * v],
    ReduceMax: [-Infinity, (m, v) => Math.max(m, v)], ReduceMin: [Infinity, (m, v) => Math.min(m, v)],
    ReduceMean: [0, (sum, v) => sum + v, (sum, count) => sum / count],
  };

  const operators = {
    Identity: (x) => x,
    Cast: (x, { to }) => each(x, to === "bool" ? (v) => v !== 0 : to === "int" ? Math.trunc : (v) => v, to),
    Div: (a, b) => broadcast(a.type, [a, b], a.type === "int" ? (x, y) => Math.trunc(x / y) : (x, y) => x / y),
    Mod: (a, b) => broadcast(a.type, [a, b], (x, y) => { const rest = x % y; return rest && rest < 0 !== y < 0 ? rest + y : rest; }),
    Where: (test, a, b) => broadcast(a.type, [test, a, b], (t, x, y) => (t ? x : y)),
    Clip: (x, low, high) => each(x, (v) => (v < low.data[0] ? low.data[0] : v > high.data[0] ? high.data[0] : v)),
    Concat: (...given) => joined(given.slice(0, -1), given.at(-1).axis),
    Gather: (x, indices, { axis = 0 }) => gathered(x, indices, axis),
    GatherElements(x, indices, { axis = 0 }) {
      const [, length, after] = around(x.shape, axis), [before, n, width] = around(indices.shape, axis);
      const result = tensor(x.type, indices.shape);
      for (let b = 0, i = 0; b < before; b++) {
        for (let k = 0; k < n; k++) {
          for (let c = 0; c < width; c++, i++) result.data[i] = x.data[(b * length + indices.data[i]) * after + c];
        }
      }
      return result;
    },
    ScatterND(x, indices, updates) {
      const result = tensor(x.type, x.shape, x.data.slice()), width = sizeOf(x.shape.slice(1));
      indices.data.forEach((row, i) => { for (let k = 0; k < width; k++) result.data[row * width + k] = updates.data[i * width + k]; });
      return result;
    },
    MatMul: (a, b) => product(a, b),
    Gemm: (a, b, c) => broadcast(a.type, [product(a, b), c], (x, y) => x + y),
    Reshape(x, shape) {
      const lengths = Array.from(shape.data, (length, i) => (length === 0 ? x.shape[i] : length));
      const known = lengths.reduce((all, length) => (length < 0 ? all : all * length), 1);
      return tensor(x.type, lengths.map((length) => (length < 0 ? x.data.length / known : length)), x.data);
    },
    Unsqueeze(x, axes) {
      const rank = x.shape.length + axes.data.length, added = Array.from(axes.data, (axis) => axisOf(axis, rank));
      const rest = [...x.shape];
      return tensor(x.type, Array.from({ length: rank }, (_, i) => (added.includes(i) ? 1 : rest.shift())), x.data);
    },
    Squeeze(x, axes) {
      const drop = axes.data && Array.from(axes.data, (axis) => axisOf(axis, x.shape.length));
      return tensor(x.type, x.shape.filter((length, i) => (drop ? !drop.includes(i) : length !== 1)), x.data);
    },
    Expand: (x, shape) => broadcast(x.type, [x, tensor("bool", Array.from(shape.data))], (v) => v),
    Shape(x, { start = 0, end = x.shape.length }) {
      const lengths = x.shape.slice(start, end);
      return tensor("int", [lengths.length], Float64Array.from(lengths));
    },
    Size: (x) => scalar("int", x.data.length),
    Slice(x, starts, ends, axes) {
      const given = axes.data || starts.data.map((_, i) => i);
      return Array.from(given).reduce((part, axis, i) => sliced(part, axis, starts.data[i], ends.data[i]), x);
    },
    Split(x, ...rest) {
      const { axis = 0, count } = rest.at(-1), [, length] = around(x.shape, axis);
      const sizes = rest.length > 1 ? Array.from(rest[0].data) : new Array(count).fill(length / count);
      let start = 0;
      return sizes.map((size) => sliced(x, axis, start, (start += size)));
    },
    TopK: (x, k, attributes) => topK(x, k.data[0], attributes),
    CumSum(x, axis, { exclusive = 0 }) {
      const [before, length, after] = around(x.shape, axis.data[0]), result = tensor(x.type, x.shape);
      for (let b = 0; b < before; b++) {
        for (let c = 0; c < after; c++) {
          for (let i = 0, sum = 0; i < length; i++) {
            const at = (b * length + i) * after + c;
            result.data[at] = exclusive ? sum : sum + x.data[at];
            sum += x.data[at];
          }
        }
      }
      return result;
    },
    Unique: (x) => { const found = Float64Array.from(new Set(x.data)).sort(); return tensor(x.type, [found.length], found); },
    NonZero(x) {
      const steps = stepsOf(x.shape), found = [];
      x.data.forEach((v, i) => { if (v) found.push(i); });
      const data = Float64Array.from(x.shape.flatMap((length, axis) => found.map((i) => Math.floor(i / steps[axis]) % length)));
      return tensor("int", [x.shape.length, found.length], data);
    },
    Pad(x, pads) {  // zeros after the columns
      return joined([x, tensor(x.type, [x.shape[0], pads.data[3]])], 1);
    },
    Range(start, end, step) {
      const length = Math.max(0, Math.ceil((end.data[0] - start.data[0]) / step.data[0]));
      return tensor(start.type, [length], ARRAYS[start.type].from({ length }, (_, i) => start.data[0] + i * step.data[0]));
    },
    ConstantOfShape: (shape) => tensor("float32", Array.from(shape.data)),
    ArgMax(x, { axis = 0, keepdims = 1 }) {
      const [before, length, after, place] = around(x.shape, axis);
      const shape = keepdims ? x.shape.with(place, 1) : x.shape.filter((_, i) => i !== place), result = tensor("int", shape);
      for (let b = 0; b < before; b++) {
        for (let c = 0; c < after; c++) {
          let best = 0;
          for (let i = 1; i < length; i++) if (x.data[(b * length + i) * after + c] > x.data[(b * length + best) * after + c]) best = i;
          result.data[b * after + c] = best;
        }
      }
      return result;
    },
    LabelEncoder(x, { keys_strings: keys, values_int64s: values, default_int64: other }) {
      const known = new Map(keys.map((key, i) => [key, values[i]]));
      return each(x, (text) => known.get(text) ?? other, "int");
    },
    TreeEnsembleRegressor: (x, attributes) => treeEnsemble(x, attributes),
  };
  const folded = (type, f) => (first, ...rest) => rest.slice(0, -1).reduce((all, t) => broadcast(type || all.type, [all, t], f), first);
  for (const [name, f] of Object.entries(arithmetic)) operators[name] = folded(null, f);
  for (const [name, f] of Object.entries(comparisons)) operators[name] = folded("bool", f);
  for (const [name, f] of Object.entries(functions)) operators[name] = (x) => each(x, f);
  for (const [name, f] of Object.entries(tests)) operators[name] = (x) => each(x, f, "bool");
  for (const [name, [start, step, end]] of Object.entries(reductions)) {
    operators[name] = (x, ...rest) => {
      const { axes, keepdims = 1 } = rest.at(-1);
      return reduced(x, rest.length > 1 ? Array.from(rest[0].data) : axes, keepdims, start, step, end);
    };
  }

  function loop(known, [count, , ...start], attributes, nOutputs) {
    let state = start.map((name) => known.get(name));
    const body = attributes.body, scans = Array.from({ length: nOutputs - state.length }, () => []);
    for (let i = 0; i < known.get(count).data[0]; i++) {
      const inner = new Map(known), given = [scalar("int", i), scalar("bool", 1), ...state];
      body.inputs.forEach((name, k) => inner.set(name, given[k]));
      const outputs = steps(body, inner).slice(1);
      state = outputs.slice(0, state.length);
      outputs.slice(state.length).forEach((part, k) => scans[k].push({ ...part, shape: [1, ...part.shape] }));
    }
    return [...state, ...scans.map((parts) => joined(parts, 0))];
  }

  function steps(program, known) {
    for (const [name, inputs, outputs, attributes = {}] of program.nodes) {
      const found = name === "Loop" ? loop(known, inputs, attributes, outputs.length)
        : operators[name](...inputs.map((input) => known.get(input)), { ...attributes, count: outputs.length });
      (Array.isArray(found) ? found : [found]).forEach((value, i) => known.set(outputs[i], value));
    }
    return program.outputs.map(([, value]) => known.get(value));
  }

  // Outputs by name from inputs by name.
  function run(program, constants, inputs) {
    const found = steps(program, new Map([...constants, ...Object.entries(inputs)]));
    return Object.fromEntries(program.outputs.map(([name], i) => [name, found[i]]));
  }

  // ---- distributions ----

  // How many of the sorted values are at most v (or, on the left side, below it).
  function countBelow(values, v, left = false) {
    let low = 0, high = values.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (left ? values[middle] < v : values[middle] <= v) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  // A piecewise linear density with Pareto tails; see usnrt.distributions.ResidualDistribution.
  class Residual {
    constructor({ knots, density, tail_mass, tail_index, mean, std }) {
      Object.assign(this, { knots, density, mass: tail_mass, index: tail_index, mean, std });
      this.scale = [tail_mass[0] / density[0], tail_mass[1] / density.at(-1)];
      const cells = density.slice(1).map((d, i) => (knots[i + 1] - knots[i]) * 0.5 * (d + density[i]));
      this.below = [tail_mass[0]];
      cells.forEach((mass) => this.below.push(this.below.at(-1) + mass));
      this.above = [tail_mass[1]];
      cells.toReversed().forEach((mass) => this.above.unshift(this.above[0] + mass));
      this.moments = [this.outside(knots[0], 0)];
      cells.forEach((_, i) => this.moments.push(this.moments[i].map((m, k) => m + this.inCell(i, 1)[k])));
    }

    beyond(z, side) {
      const distance = side ? z - this.knots.at(-1) : this.knots[0] - z;
      return Math.log1p((this.index[side] * Math.max(distance, 0)) / this.scale[side]);
    }

    tail(z, side) { return this.mass[side] * Math.exp(-this.beyond(z, side) / this.index[side]); }

    cell(z) { return Math.min(Math.max(countBelow(this.knots, z) - 1, 0), this.knots.length - 2); }

    inside(z) {  // mass between the knot before z and z, and the cell
      const i = this.cell(z), width = this.knots[i + 1] - this.knots[i], t = (z - this.knots[i]) / width;
      return [width * t * (this.density[i] + 0.5 * (this.density[i + 1] - this.density[i]) * t), i];
    }

    cdf(z) {
      if (z < this.knots[0]) return this.tail(z, 0);
      if (z > this.knots.at(-1)) return 1 - this.tail(z, 1);
      const [mass, i] = this.inside(z);
      return this.below[i] + mass;
    }

    sf(z) {
      if (z < this.knots[0]) return 1 - this.tail(z, 0);
      if (z > this.knots.at(-1)) return this.tail(z, 1);
      const [mass, i] = this.inside(z);
      return this.above[i] - mass;
    }

    ppf(q) {
      const far = (share, side) => (Math.expm1(-this.index[side] * Math.log(share)) / this.index[side]) * this.scale[side];
      if (q < this.mass[0]) return this.knots[0] - far(q / this.mass[0], 0);
      if (1 - q < this.mass[1]) return this.knots.at(-1) + far((1 - q) / this.mass[1], 1);
      const i = Math.min(Math.max(countBelow(this.below, q) - 1, 0), this.knots.length - 2);
      const width = this.knots[i + 1] - this.knots[i], start = this.density[i], rise = this.density[i + 1] - start;
      const area = Math.max(q - this.below[i], 0) / width;
      const t = (2 * area) / (start + Math.sqrt(Math.max(start * start + 2 * rise * area, 0)));
      return this.knots[i] + width * Math.min(t, 1);
    }

    // Integrals of 1, z - mean and (z - mean)^2 times the density: over the first share t of a cell, over a tail, below z.
    inCell(i, t) {
      const width = t * (this.knots[i + 1] - this.knots[i]), d = this.density[i], rise = t * (this.density[i + 1] - d);
      const zeroth = width * (d + rise / 2), first = width ** 2 * (d / 2 + rise / 3), second = width ** 3 * (d / 3 + rise / 4);
      const c = this.knots[i] - this.mean;
      return [zeroth, c * zeroth + first, c * c * zeroth + 2 * c * first + second];
    }

    outside(z, side) {
      const index = this.index[side], mass = this.tail(z, side), scale = this.scale[side] * Math.exp(this.beyond(z, side));
      const first = scale / (1 - index), second = (2 * scale ** 2) / ((1 - index) * (1 - 2 * index));
      const c = z - this.mean, sign = side ? 1 : -1;
      return [mass, mass * (c + sign * first), mass * (c * c + sign * 2 * c * first + second)];
    }

    momentsBelow(z) {
      if (z === -Infinity) return [0, 0, 0];
      const all = [1, 0, this.std ** 2];
      if (z === Infinity) return all;
      if (z < this.knots[0]) return this.outside(z, 0);
      if (z > this.knots.at(-1)) return this.outside(z, 1).map((m, k) => all[k] - m);
      const i = this.cell(z), part = this.inCell(i, (z - this.knots[i]) / (this.knots[i + 1] - this.knots[i]));
      return this.moments[i].map((m, k) => m + part[k]);
    }
  }

  // One row's distribution on the scale before the map: its quantile function at a residual distribution.
  class Quantiles {
    constructor(knots, positions, residual, weights) { Object.assign(this, { knots, positions, residual, weights }); }

    value(z) {
      const i = countBelow(this.positions.slice(1, -1), z), p = this.positions, share = (z - p[i]) / (p[i + 1] - p[i]);
      return this.knots[i] + (this.knots[i + 1] - this.knots[i]) * share;
    }

    position(y, left = false) {
      const i = countBelow(this.knots.slice(1, -1), y, left), height = Math.max(this.knots[i + 1] - this.knots[i], 2.2250738585072014e-308);
      return this.positions[i] + ((y - this.knots[i]) / height) * (this.positions[i + 1] - this.positions[i]);
    }

    isTop(y) { return y === this.knots.at(-1) && y === this.knots.at(-2); }

    cdf(y) { return this.isTop(y) ? 1 : this.residual.cdf(this.position(y)); }

    sf(y) { return this.isTop(y) ? 0 : this.residual.sf(this.position(y)); }

    cdfLeft(y) { return y === this.knots[0] && y === this.knots[1] ? 0 : this.residual.cdf(this.position(y, true)); }

    ppf(q) { return this.value(this.residual.ppf(q)); }

    // Integrals of 1, y - centre and its square between two values, point masses at the ends not counted.
    momentsBetween(low, high, centre) {
      const from = low === -Infinity ? low : this.position(low), to = high === Infinity ? high : this.position(high, true);
      const last = this.positions.length - 2, sums = [0, 0, 0];
      for (let i = 0; i <= last; i++) {
        const a = Math.max(from, i ? this.positions[i] : -Infinity), b = Math.min(to, i < last ? this.positions[i + 1] : Infinity);
        if (a >= b) continue;
        const start = this.residual.momentsBelow(a), [m, f, s] = this.residual.momentsBelow(b).map((value, k) => value - start[k]);
        const slope = (this.knots[i + 1] - this.knots[i]) / (this.positions[i + 1] - this.positions[i]);
        const at = this.knots[i] + slope * (this.residual.mean - this.positions[i]) - centre;
        sums[0] += m;
        sums[1] += at * m + slope * f;
        sums[2] += at * at * m + 2 * at * slope * f + slope * slope * s;
      }
      return sums;
    }

    moments() {
      const centre = this.knots[(this.knots.length - 1) / 2], [, first] = this.momentsBetween(-Infinity, Infinity, centre);
      const mean = centre + first, std = Math.sqrt(Math.max(this.momentsBetween(-Infinity, Infinity, mean)[2], 0));
      return [this.weights ? this.knots.reduce((sum, knot, k) => sum + this.weights[k] * knot, 0) : mean, std];
    }
  }

  // The distribution of a target with bounds or a logarithm; see usnrt.distributions.TransformedDistribution.
  class Mapped {
    constructor(base, map) {
      Object.assign(this, { base, map });
      [this.lowEnd, this.highEnd] = [this.scaled(map.low_end), this.scaled(map.high_end)];
      this.massLow = isFinite(this.lowEnd) ? base.cdf(this.lowEnd) : 0;
      this.massBelowHigh = isFinite(this.highEnd) ? base.cdfLeft(this.highEnd) : 1;
    }

    scaled(y) {
      const { low, shift, knee, log } = this.map;
      if (!log) return y;
      const distance = Math.max(y - low + shift, 1e-12 * knee), inside = Math.min(distance, knee);
      return Math.log(inside) + (distance - inside) / knee;
    }

    unbounded(z) {
      const { low, shift, knee, log } = this.map;
      if (!log) return z;
      const top = Math.log(knee), distance = Math.exp(Math.min(z, top)) + knee * Math.max(z - top, 0);
      return (distance <= 1e-12 * knee ? 0 : distance) + (low - shift);
    }

    target(z) {
      const y = this.unbounded(z);
      return y <= this.map.low_end ? this.map.low : y >= this.map.high_end ? this.map.high : y;
    }

    ppf(q) { return this.target(this.base.ppf(q)); }

    cdf(y) {
      const m = this.map;
      if (y < m.low) return 0;
      if (y >= m.high) return 1;
      if (y < m.low_end) return this.massLow;
      if (y >= m.high_end) return this.massBelowHigh;
      return this.base.cdf(this.scaled(Math.min(Math.max(y, m.low_end), m.high_end)));
    }

    sf(y) { return 1 - this.cdf(y); }

    moments() {
      const m = this.map, masses = [[m.low, m.low_end, this.massLow], [m.high, m.high_end, 1 - this.massBelowHigh]];
      let centre, offset = 0, square;
      if (!m.log) {
        const clip = (value) => Math.min(Math.max(value, m.low), m.high);
        centre = clip(this.base.moments()[0]);
        [, offset, square] = this.base.momentsBetween(this.lowEnd, this.highEnd, centre);
        for (const [bound, , mass] of masses) {
          if (!isFinite(bound)) continue;
          offset += mass * (bound - centre);
          square += mass * (bound - centre) ** 2;
        }
        return [clip(centre + offset), Math.sqrt(Math.max(square - offset ** 2, 0))];
      }
      const values = m.levels.map((level) => Math.min(Math.max(this.unbounded(this.base.ppf(level)), m.low_end), m.high_end));
      centre = values.reduce((sum, v, i) => sum + v * m.weights[i], 0);
      square = values.reduce((sum, v, i) => sum + (v - centre) ** 2 * m.weights[i], 0);
      for (const [bound, end, mass] of masses) {
        if (bound === end) continue;
        offset += mass * (bound - end);
        square += mass * ((bound - centre) ** 2 - (end - centre) ** 2);
      }
      return [centre + offset, Math.sqrt(Math.max(square - offset ** 2, 0))];
    }
  }

  // ---- a model ----

  const rowOf = (x, row) => Array.from(x.data.subarray(row * x.shape[1], (row + 1) * x.shape[1]));

  function dateOf(text) {  // microseconds of the time as it is written: zones are ignored, as in Python
    const written = String(text).trim().replace(" ", "T").replace(/(Z|[+-]\d\d:?\d\d)$/, "");
    const moment = Date.parse(written.includes("T") ? `${written}Z` : written);
    if (isNaN(moment)) throw new Error("must be a date");
    return moment * 1000;
  }

  function cellOf(value, column) {
    if (value === null || value === undefined || column.kind === "ignored") return column.missing ?? NaN;
    if (column.kind === "text") return String(value);
    if (column.kind === "date") return dateOf(value);
    const number = typeof value === "boolean" ? Number(value) : typeof value === "string" && value.trim() === "" ? NaN : Number(value);
    if (!isFinite(number)) throw new Error("must be a number");
    return number;
  }

  // Long attributes are constants; words are written as codes.
  function withAttributes(program, constants) {
    for (const [, , , attributes = {}] of program.nodes) {
      for (const [name, value] of Object.entries(attributes)) {
        if (name === "body") withAttributes(value, constants);
        else if (value && value.constant) {
          const { data } = constants.get(value.constant);
          attributes[name] = value.words ? Array.from(data, (code) => value.words[code]) : data;
        }
      }
    }
  }

  function create(data) {
    const constants = new Map(Object.entries(data.constants).map(([name, written]) => [name, constant(written)]));
    for (const program of [data.row, data.moments]) if (program) withAttributes(program, constants);
    const residuals = data.residuals.map((residual) => new Residual(residual));
    const map = data.target.map && Object.fromEntries(Object.entries(data.target.map).map(([name, value]) => [name,
      value === null ? (name.startsWith("low") ? -Infinity : Infinity) : value]));
    const rules = new Map(data.card.regions.map((region) => [region.region, region.rule]));

    function inputsOf(row) {
      const cells = data.columns.map((column) => {
        try {
          return cellOf(row[column.name], column);
        } catch (error) {
          throw new Error(`${column.name} ${error.message}, got ${JSON.stringify(row[column.name])}`);
        }
      });
      if (data.matrix) return { X: tensor("float64", [1, cells.length], Float64Array.from(cells)) };
      const types = { text: "text", date: "int" };
      return Object.fromEntries(data.columns.map((column, i) => {
        const type = types[column.kind] || "float64";
        return [column.input, tensor(type, [1], ARRAYS[type].from([cells[i]]))];
      }));
    }

    function distribution(knots, leaf) {
      const { mean, std } = data.target, scaled = knots.map((knot) => mean + std * knot);
      const base = new Quantiles(scaled, data.positions, residuals[data.group_of_leaf[leaf]], data.mean_weights);
      return map ? new Mapped(base, map) : base;
    }

    function interval(knots, leaf, coverage) {
      const group = data.group_of_leaf[leaf], bounds = data.bounds && data.bounds[Math.round(100 * coverage)][group];
      const residual = residuals[group], ends = bounds || [(1 - coverage) / 2, (1 + coverage) / 2].map((q) => residual.ppf(q));
      const base = distribution(knots, leaf), quantiles = map ? base.base : base;
      const values = ends.map((z) => (map ? base.target(quantiles.value(z)) : quantiles.value(z)));
      return { lower: values[0], upper: values[1], ...(data.bounds ? { guaranteed: Boolean(bounds) } : {}) };
    }

    function reasonsOf(row, found) {
      const categories = data.categories.map(([position, n]) => [position, n, found[`category ${position}`].data[row]]);
      const flag = (name) => Boolean(found[name] && found[name].data[row]);
      const numbers = data.numbers.map((position, j) => [position, found["all numbers"].data[row * data.numbers.length + j]]);
      const absent = [...numbers.filter(([, value]) => value !== value), ...categories.filter(([, n, index]) => index === n + 1)];
      const is = {
        outside_range: flag("outside"), unseen_category: categories.some(([, n, index]) => index === n),
        unexpected_missing: absent.some(([position]) => data.never_missing[position]), far: flag("far"), unlike_subjects: flag("unlike"),
      };
      return Object.keys(data.reasons).filter((name) => is[name]).map((name) => data.reasons[name]);
    }

    function curveOf(dist) {
      const { tail, cells } = data.curve, low = dist.ppf(tail), high = dist.ppf(1 - tail);
      const margin = Math.max((high - low) / cells, 1e-9 * Math.max(Math.abs(low), Math.abs(high), 1e-300));
      const start = low - margin, step = (high + margin - start) / cells;
      const edges = Array.from({ length: cells + 1 }, (_, i) => start + i * step), below = edges.map((edge) => dist.cdf(edge));
      [below[0], below[cells]] = [0, 1];
      return { edges, probability: edges.slice(1).map((_, i) => below[i + 1] - below[i]) };
    }

    // Mean and standard deviation of encoded rows, whatever their support.
    function momentsOf(rows) {
      const width = data.numbers.length, inputs = {};
      if (width) inputs.numbers = tensor("float64", [rows.length, width], Float64Array.from(rows.flatMap((row) => row.slice(0, width))));
      data.categories.forEach(([position], k) => {
        inputs[`category ${position}`] = tensor("int", [rows.length], Float64Array.from(rows, (row) => row[width + k]));
      });
      const { quantiles, leaf } = run(data.moments, constants, inputs);
      return rows.map((_, i) => distribution(rowOf(quantiles, i), leaf.data[i]).moments());
    }

    // Shapley values against the background rows of the region; see usnrt.explain.shapley.
    function explained(row, found, full) {
      const { backgrounds, orders, feature_of: featureOf, names } = data.explain;
      const own = backgrounds[found.leaf.data[row]].map((values) => values.map((value) => value ?? NaN));
      const width = data.numbers.length, last = names.length - 1;
      const after = Array.from(found.numbers ? found.numbers.data.subarray(row * width, (row + 1) * width) : []);
      after.push(...data.categories.map(([position]) => found[`category ${position}`].data[row]));
      const starts = momentsOf(own), [end] = momentsOf([after]), mixed = [];
      orders.forEach((step, k) => {
        const before = own[Math.floor(k / 2) % own.length];
        for (let s = 0; s < last; s++) mixed.push(after.map((value, j) => (step[featureOf[j]] <= s ? value : before[j])));
      });
      const between = mixed.length ? momentsOf(mixed) : [], sums = names.map(() => [0, 0]);
      orders.forEach((step, k) => {
        const path = [starts[Math.floor(k / 2) % own.length], ...between.slice(k * last, (k + 1) * last), end];
        step.forEach((s, feature) => [0, 1].forEach((q) => { sums[feature][q] += (path[s + 1][q] - path[s][q]) / orders.length; }));
      });
      const base = [0, 1].map((q) => starts.reduce((sum, value) => sum + value[q], 0) / own.length);
      const by = (q) => Object.fromEntries(names.map((name, i) => [name, sums[i][q]]));
      return {
        base_mean: base[0], base_std: base[1], mean_contributions: by(0), std_contributions: by(1),
        mean_adjustment: full[0] - end[0], std_adjustment: full[1] - end[1], advice: [],
      };
    }

    function predict({ rows, coverage = 0.9, quantiles = [0.1, 0.5, 0.9], above = null, explain = false, curve = false }) {
      return rows.map((given) => {
        const found = run(data.row, constants, inputsOf(given)), knots = rowOf(found.quantiles, 0), leaf = found.leaf.data[0];
        const dist = distribution(knots, leaf), [mean, std] = dist.moments(), region = found.region.data[0];
        const row = {
          mean, std, ...interval(knots, leaf, coverage), region, rule: rules.get(region),
          supported: Boolean(found.supported.data[0]), reasons: reasonsOf(0, found),
          quantiles: Object.fromEntries(quantiles.map((level) => [String(level), dist.ppf(level)])),
        };
        if (above !== null) row.probability_above = dist.sf(above);
        if (curve) row.curve = curveOf(dist);
        if (explain) {
          if (!data.explain) throw new Error("this page has no rows to compare with");
          row.explanation = explained(0, found, [mean, std]);
        }
        return row;
      });
    }

    // The answers of `usnrt serve`, for the page.
    function ask(path, body) {
      if (path === "models") return { models: [{ name: data.card.name, target: data.card.target }] };
      return path.endsWith("/predict") ? { predictions: predict(body) } : data.card;
    }

    return { ask, predict };
  }

  return { create };
})();
