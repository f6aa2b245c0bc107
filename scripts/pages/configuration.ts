import { type JsonSchema, shapeSchema } from "../../src/config/schema/json-schema.ts";

const INTRODUCTION = `# Configuration

<!-- Generated from src/config/schema/shape.ts: edit that, then run npm run generate. -->

One YAML file, \`config/tollgate.yaml\` unless \`--config\` names another. \`tollgate check\` prints every
mistake as \`FILE:LINE:COL: message\` and warnings the same way. \`tollgate schema\` prints the JSON
Schema; editors find it through the first line of the file:

\`\`\`yaml
# yaml-language-server: $schema=./tollgate.schema.json
\`\`\`

The smallest file that works:

\`\`\`yaml
environments:
  production:
    listen: 127.0.0.1:8080
    basePath: /v1
    keyTag: live
    upstreams: [http://127.0.0.1:3000]
plans:
  free: { minute: 60, day: 1000 }
\`\`\`

- Unknown keys, keys given twice and keys without a value are mistakes.
- Paths are relative to the file.
- A duration is a whole number with \`ms\`, \`s\`, \`m\`, \`h\` or \`d\`, such as \`24h\`. A size is one with \`B\`, \`KiB\`,
  \`MiB\` or \`GiB\`, such as \`1MiB\`.
- \`\${NAME}\` is the value of a variable of the environment, and \`\${NAME:-default}\` has a default for one that is unset
  or empty. An unset variable without a default is a mistake. Both are replaced after parsing, so that a variable can
  hold anything and adds no structure. In a map between braces, put the reference in quotes. A literal dollar is \`$$\`.
  A text that YAML reads as a number, or as true or false, such as a \`keyTag\` of digits, needs quotes, and so does a
  reference to one: \`keyTag: "\${TAG}"\`.
  Mistakes show no text that comes from the environment, except the name of the file that they are in; numbers of
  limits, and what a refused reload would change, are told. A password never is.
- \`\${file:/run/secrets/x}\` is the content of that file, at most 64 KiB, without the line break at its end. The file is
  watched like the configuration, so a secret that is replaced is reloaded.
- The variable \`TOLLGATE_DATA\`, if set, is the folder of the defaults of \`keys\` and \`stateFile\`, as in the image.
- The forms of \`store\` are \`memory\`, \`redis://user:password@host:6379/0\`,
  \`redis+sentinel://user:password@host:26379,host:26379/NAME\` with the name of the master, and
  \`redis+cluster://host:7000,host:7001\`. Write \`rediss\` in place of \`redis\` for TLS. In a user name or password,
  percent-encode everything except letters, digits and \`-._~\`. [Engines](operations.md#engines) says
  how the certificate of a Redis is verified.
- \`off\` may be written \`false\`.

## Across keys

These are mistakes too:

- \`keys: redis\`, or \`workers\` other than 1, with \`store: memory\`; the
  address of a store as \`keys\`, which is \`redis\` or a path.
- An admin listener off loopback without a token of at least 32 characters.
- One address for two environments whose \`hosts\` do not tell them apart, or for an environment and
  the admin listener; an address beside one that includes it, such as \`0.0.0.0:8080\` and
  \`127.0.0.1:8080\`. Port 0 takes any free port and is never shared.
- \`tls\` in one of two environments that share an address and not in the other; a certificate or key
  that cannot be read, or that do not belong together.
- \`cors\` with \`credentials: true\` for the origins \`"*"\`, or with \`"*"\` beside others.
- A path of \`backends\` twice, outside of \`basePath\`, or without the prefix that it strips; an operation
  outside of its backend's path; no \`upstreams\` where no backend has \`basePath\` itself.
- A \`public\` plan that is not there, is \`custom\`, or has a window longer than an hour; \`costs\` or
  \`publicRoutes\` where every path is described; a \`standing\` path that a description has too, or that is
  \`basePath\` itself.
- A prefix of \`foreignKeys\` with which a key of \`keyPrefix\`, or of another prefix, could start.
- The same \`keyTag\` twice; the same host or upstream twice in one list.
- One file for \`keys\` and \`stateFile\`, hard links included, or for one of them and what the gateway keeps next to
  the other: \`state.notes.json\`, \`state.history\`, \`….lock\` and \`….tmp\`.
- One of these, or what is kept next to it, that the configuration reads elsewhere, as itself or \`api\`. On the machine
  of \`check\` or of the start, one that is a folder, or below a file. What is not there yet is no mistake.

\`headersTimeout\` longer than \`requestTimeout\` counts as \`requestTimeout\`. Bans that can never happen (\`strikes\` that
cannot fit into \`within\`, \`grace\` apart) and a \`duration\` over \`max\` are warnings. So is a network of
\`trustedProxies\`, \`allow\` or \`deny\` with another address than its first one, as the whole network counts, the same
entry twice in one of these, in any spelling, or in \`admin.hosts\`, \`cors.origins\`, \`log.meta\`, \`events.kinds\` or
\`events.quota\`, and a \`localhost\` beside \`127.0.0.1\` or \`[::1]\` with the same port, as the machine says which of
them it is. So is a \`*\` inside an origin of \`cors\`, as origins are compared whole, and, with \`credentials: true\`, a
\`"*"\` in \`headers\` or \`expose\`, as browsers take it for a name then. So is an entry of \`costs\` or \`publicRoutes\`
whose path belongs to a service with a description, as nothing uses it, an entry of \`costs\` whose paths an earlier one
has, as the first that matches counts, or whose path is \`standing\`, and \`upstreams\` next to a backend that has
\`basePath\` itself. So are environments that share a listener and differ in \`connections\`, \`connectionsPerAddress\` or
\`headersTimeout\` ([environments](reference/http.md#environments)).

## Reload

Save the file, send SIGHUP, or use \`POST /api/reload\`: the gateway reads everything again and puts it in force as a whole.
A file with a mistake changes nothing, and is read again when it, or a description, certificate or secret that it names,
is saved, appears or gets other rights. If one of these files is gone for five seconds, or the gateway may no longer read
it, that is told as a refused reload, because the next start would fail. If one of these files cannot be read because of the machine, such as for want of
open files, nothing is judged, and the gateway tries again each second. A reload is refused if it

- changes \`store\`, \`storePrefix\`, \`keys\`, \`stateFile\`, \`workers\`, the \`listen\` of an environment or of \`admin\`, or
  whether a listener has \`tls\`
- drops a plan that working keys have, or makes it \`custom\` while they have no limits of their own
- adds or removes an environment on an address that no other environment has open

A reload that drops or renames an environment is taken, because another gateway with the same records may serve it, and so
is one with another \`keyTag\` or \`keyPrefix\`: a \`config_warning\` names the accounts whose keys are answered 401 from then
on ([another tag or prefix](reference/keys.md#another-tag-or-prefix)). Before it, \`check --keys\` names the accounts with
working keys whose plan or environment the file lacks; for the tag and the prefix it cannot, as a record keeps neither.

A reload that drops a plan waits for the changes of keys and accounts that this gateway makes, and judges later ones by
the new plans. If another process wrote a record on that plan while the reload ran, the old file stays in force.
`;

const DESCRIPTION_NOTES = `## The API description

\`environments.*.api\` is an OpenAPI 3 file, YAML or JSON, of at most 8 MiB. The gateway reads:

| key of an operation | meaning |
|---|---|
| the path | \`basePath\` and the path make the route; \`servers\` are not used (a warning where none ends in \`basePath\`, also at those of a path or an operation). A parameter is a segment, or what literal text leaves of one: \`{id}.json\`, \`{id}:publish\`, \`@{user}\`, \`{from}-{to}\`; it is never empty. Of several templates that match a path, the one with the fewest segments with parameters has it, then the one with the longer literal text, then the one that comes first. Two paths that match the same requests are a mistake |
| \`get put post delete options head patch\` | the methods; \`trace\` and others are a warning and left out |
| \`requestBody\` | whether DELETE may have a body |
| \`deprecated: true\` | announces the operation's end with the next three rows |
| \`x-deprecated-since\` | \`Deprecation\`; missing: a warning, not sent |
| \`x-sunset\`, \`x-deprecated-sunset\` | \`Sunset\`, and 410 from that instant on; missing: a warning, not sent; before the deprecation: a mistake |
| \`x-successor\` | \`Link: <…>; rel="successor-version"\`: a URI reference |
| \`x-brownouts\` | times at which it answers 410 \`brownout\` ahead of its end, as in \`["2030-11-05T14:00Z/1h"]\`; those that overlap or touch are one; at or after the sunset: a warning |
| \`x-stability-level\`, \`x-stability\` | \`experimental\` or \`beta\` is sent as \`X-API-Stability\`; \`stable\` sends nothing; others are a warning |
| \`x-requires-scope: true\` | with a stability: only keys with that scope |
| \`security\`, of the operation or the file | the [scopes](reference/plans.md#scopes) that a key needs; \`[]\` or \`{}\`: [public](reference/plans.md#public-operations) |
| \`x-cost\` | the units of one request, from 0 to 1000000, 1 without it: [cost](reference/plans.md#cost) |
| \`x-meters\` | what the answer costs, as in \`{ tokens: { hold: 2000, max: 16000, used: [json /usage/total_tokens] } }\`: [meters](reference/meters.md) |
| \`x-limits\` | windows of each account [for this operation](reference/plans.md#limits-of-an-operation), as in \`{ minute: 10 }\`; needs an \`operationId\` |

Dates are \`2030-12-05\`, which means 00:00:00Z, or \`2030-12-05T00:00:00Z\`. On an operation that is not
\`deprecated: true\`, \`x-deprecated-since\`, the sunset and \`x-successor\` are a warning and have no effect;
\`x-brownouts\` hold on any operation. A \`$ref\` of a path item is followed inside
the file, and into other files of its folder, as in \`pets.yaml\` or \`paths/pets.yaml#/list\`; saving one of them
reloads. Operations may stand beside it, but not one that it leads to as well. One in place of an operation is followed
likewise, and keys beside it that the gateway acts on are mistakes, as is the merge key \`<<\`, which YAML 1.2 does not have.

A description of Swagger 2.0 is a mistake that names a converter. Other tools' \`x-\` keys are left alone; one that is
almost a key of this table is a warning with the right word.
`;

type Row = { readonly key: string; readonly schema: JsonSchema; readonly isRequired: boolean };

/** The text of docs/configuration.md: every key with its type, its default and its meaning. */
export function configurationPage(): string {
  const root = shapeSchema();
  const top = rowsOf(root).filter(({ schema }) => mapIn(schema) === undefined);
  const inner = rowsOf(root).filter(({ schema }) => mapIn(schema) !== undefined);
  // The required keys come first.
  inner.sort((one, other) => Number(other.isRequired) - Number(one.isRequired));
  const sections = [
    section("The file", "", top),
    ...inner.flatMap(({ key, schema }) => sectionsOf(`${key}${listMark(schema)}`, schema)),
  ];
  return `${INTRODUCTION}\n${sections.join("\n")}\n${DESCRIPTION_NOTES}`;
}

/** The sections of a map, or of the maps in a list or by name, and of the maps inside it. */
function sectionsOf(title: string, schema: JsonSchema): string[] {
  const map = mapIn(schema);
  if (map === undefined) return [];
  const named = map.additionalProperties as JsonSchema | undefined;
  if (named !== undefined && named !== null && typeof named === "object") {
    return sectionsOf(`${title}.NAME`, { ...named, description: schema.description });
  }
  const isSwitch = Array.isArray(schema.anyOf) && schema.anyOf.some(isOff);
  const words = [
    describe(schema),
    ...(isSwitch ? ["`off` switches it off."] : []),
    ...(hasOwnDefault(schema.default) ? [`The default is ${codeOf(schema.default)}.`] : []),
  ].join(" ");
  const inner = rowsOf(map).filter(({ key }) => key !== "limits");
  return [
    section(title, words, rowsOf(map)),
    ...inner.flatMap((row) => {
      return sectionsOf(`${title}.${row.key}${listMark(row.schema)}`, row.schema);
    }),
  ];
}

/** "[]" behind the title of a key that takes a list of maps. */
function listMark(schema: JsonSchema): string {
  const options = Array.isArray(schema.anyOf) ? (schema.anyOf as JsonSchema[]) : [];
  return [schema, ...options].some(({ type }) => type === "array") ? "[]" : "";
}

/** Whether a default is more than an empty map, whose keys have defaults, or an empty list. */
function hasOwnDefault(value: unknown): boolean {
  return value !== undefined && !["{}", "[]"].includes(JSON.stringify(value));
}

function isOff(schema: JsonSchema): boolean {
  return Array.isArray(schema.enum) && schema.enum.includes("off");
}

function section(title: string, text: string, rows: readonly Row[]): string {
  const intro = text === "" ? "" : `${text}\n\n`;
  const table = rows.map((row) => {
    return `| \`${row.key}\` | ${takes(row.schema)} | ${defaultOf(row)} | ${describe(row.schema)} |`;
  });
  return `## ${title}\n\n${intro}| key | takes | default | meaning |\n|---|---|---|---|\n${table.join("\n")}\n`;
}

function rowsOf(map: JsonSchema): Row[] {
  const required = Array.isArray(map.required) ? map.required : [];
  return Object.entries(propertiesOf(map)).map(([key, schema]) => {
    return { key, schema, isRequired: required.includes(key) };
  });
}

function propertiesOf(map: JsonSchema): Record<string, JsonSchema> {
  return (map.properties ?? {}) as Record<string, JsonSchema>;
}

/** The map that a value is or may be, or that each value of a list is. */
function mapIn(schema: JsonSchema): JsonSchema | undefined {
  if (schema.type === "object") return schema;
  if (schema.type === "array") return mapIn(schema.items as JsonSchema);
  const options = Array.isArray(schema.anyOf) ? (schema.anyOf as JsonSchema[]) : [];
  return options.map(mapIn).find((map) => map !== undefined);
}

function takes(schema: JsonSchema): string {
  if (typeof schema.title === "string") return inCell(schema.title);
  if (schema.type === "array") return `a list, each ${takes(schema.items as JsonSchema)}`;
  if (mapIn(schema) === undefined) return inCell(String(schema.type));
  const keys = Object.keys(propertiesOf(mapIn(schema) ?? {}));
  if (keys.includes("headerBytes")) return "a map, as `limits`";
  if (!keys.includes("connectTimeout")) return "a map, see below";
  return `a map of these of \`limits\`: ${keys.map(codeOf).join(", ")}`;
}

function defaultOf({ schema, isRequired }: Row): string {
  if (schema.default === undefined) return isRequired ? "required" : "none";
  return codeOf(schema.default);
}

function codeOf(value: unknown): string {
  return `\`${typeof value === "string" && value !== "" ? value : JSON.stringify(value)}\``;
}

function describe(schema: JsonSchema | undefined): string {
  return inCell(String(schema?.description ?? ""));
}

function inCell(text: string): string {
  return text.replaceAll("|", "\\|").replaceAll("\n", " ");
}
