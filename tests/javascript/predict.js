// Predict with a model that `model.to_onnx("model.onnx")` or `usnrt export` has written.
//
//     node predict.js model.onnx rows.json > predictions.json
//
// rows.json is a list of objects, {"column": value}. Missing values are null or left out, dates are text such as
// "2024-05-31T12:00". For a model of numeric columns only, whose graph has the one input X, the rows are lists of numbers.

import { readFile } from "node:fs/promises";
import * as ort from "onnxruntime-web";

const MISSING_DATE = -(2n ** 63n);

// Microseconds since 1970, of the time as it is written: time zones are ignored, as in Python.
function microseconds(text) {
  if (text == null) return MISSING_DATE;
  const written = text.replace(" ", "T").replace(/(Z|[+-]\d\d:?\d\d)$/, "");
  return BigInt(Date.parse(written.includes("T") ? written + "Z" : written)) * 1000n;
}

// The values of one column as the tensor that the input of its name takes.
function tensor(values, type) {
  const shape = [values.length];
  if (type === "string") return new ort.Tensor("string", values.map((value) => value ?? ""), shape);
  if (type === "int64") return new ort.Tensor("int64", BigInt64Array.from(values, microseconds), shape);
  return new ort.Tensor("float64", Float64Array.from(values, (value) => value ?? NaN), shape);
}

// All inputs of the graph from a list of rows.
export function inputs(session, rows) {
  const [first] = session.inputMetadata;
  if (session.inputNames.length === 1 && first.shape.length === 2) {
    const numbers = Float64Array.from(rows.flat(), (value) => value ?? NaN);
    return { [first.name]: new ort.Tensor("float64", numbers, [rows.length, rows[0].length]) };
  }
  const columns = session.inputMetadata.map(({ name, type }) => [name, tensor(rows.map((row) => row[name]), type)]);
  return Object.fromEntries(columns);
}

// One object per row: mean, std, region, quantiles, supported.
export async function predict(session, rows) {
  const { mean, std, region, quantiles, supported } = await session.run(inputs(session, rows));
  const levels = quantiles.dims[1];
  return rows.map((_, i) => ({
    mean: mean.data[i],
    std: std.data[i],
    region: Number(region.data[i]),
    quantiles: Array.from(quantiles.data.slice(i * levels, (i + 1) * levels)),
    supported: Boolean(supported.data[i]),
  }));
}

const [model, rows] = process.argv.slice(2);
const session = await ort.InferenceSession.create(await readFile(model));
console.log(JSON.stringify(await predict(session, JSON.parse(await readFile(rows, "utf8")))));
