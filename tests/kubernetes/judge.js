// SPDX-License-Identifier: BSD-3-Clause
// judge.js FOLDER < [{apiVersion, kind, ...}, ...]: for each, "" or what is wrong with it, as a list on stdout. FOLDER has the
// packages of package.json. Two judges: the schemas' validators (ranges, patterns), and the compiler with the schemas' types, which
// refuses names that do not exist.
const fs = require("fs"), path = require("path");
const modules = path.join(process.argv[2], "node_modules");
const ts = require(path.join(modules, "typescript"));
const models = path.join(modules, "kubernetes-models");

function home(doc) {
  return doc.apiVersion === undefined ? "" : path.join(models, String(doc.apiVersion), String(doc.kind));
}

function byValidator(doc) {
  try {
    new (require(home(doc))[doc.kind])(doc).validate();
    return "";
  } catch (error) {
    return error.message;
  }
}

function byTypes(docs) {
  const file = path.join(process.argv[2], `manifests-${process.pid}.ts`);
  const known = docs.map((doc) => fs.existsSync(home(doc) + ".d.ts"));
  const lines = docs.map((doc, i) => known[i]
    ? `import {I${doc.kind} as T${i}} from "kubernetes-models/${doc.apiVersion}/${doc.kind}"; export const d${i}: T${i} = ${JSON.stringify(doc)};` : "");
  fs.writeFileSync(file, lines.join("\n"));
  const program = ts.createProgram([file], {noEmit: true, strict: true, skipLibCheck: true, moduleResolution: ts.ModuleResolutionKind.Node10,
    types: []});
  const faults = docs.map((doc, i) => known[i] ? "" : `no ${doc.kind} in ${doc.apiVersion}`);
  for (const found of ts.getPreEmitDiagnostics(program))
    if (found.file && found.file.fileName.endsWith(path.basename(file)))
      faults[found.file.getLineAndCharacterOfPosition(found.start).line] += ts.flattenDiagnosticMessageText(found.messageText, " ");
  fs.unlinkSync(file);
  return faults;
}

const docs = JSON.parse(fs.readFileSync(0, "utf8"));
const types = byTypes(docs);
console.log(JSON.stringify(docs.map((doc, i) => [types[i], types[i].startsWith("no ") ? "" : byValidator(doc)].filter(Boolean).join("; "))));
