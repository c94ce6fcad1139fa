// Predictions of the page's evaluator: node predict.js evaluator.js data.json requests.json
const { readFileSync } = require("node:fs");
const [evaluator, data, requests] = process.argv.slice(2).map((path) => readFileSync(path, "utf8"));
const model = new Function(`${evaluator}; return usnrtEvaluator;`)().create(JSON.parse(data));
console.log(JSON.stringify(JSON.parse(requests).map((request) => model.ask("models/m/predict", request).predictions)));
