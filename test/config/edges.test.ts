import assert from "node:assert/strict";
import { basename, dirname, isAbsolute, relative } from "node:path";
import { afterAll, beforeAll, describe, it } from "vitest";
import { maskedConfig } from "../../src/config/queries/masked-config.ts";
import { reloadBlockers } from "../../src/config/reload.ts";
import { NO_RECORDS } from "../../src/core/keys/records.ts";
import { type Authority, openAuthority } from "../support/wire/certificates.ts";
import { ENVIRONMENTS, loadFiles, loadLines, PLANS, told } from "./folder.ts";

let authority: Authority;
beforeAll(() => {
  authority = openAuthority();
});
afterAll(() => authority[Symbol.dispose]());

function withEdge(edge: string): string {
  return `${ENVIRONMENTS.replace(" }\n", `, ${edge} }\n`)}${PLANS}`;
}

const TLS = "tls: { cert: ./edge.pem, key: ./edge.key }";

describe("the certificate of an environment", () => {
  it("is read and checked, and only its paths are in the configuration", async () => {
    const { cert, key } = authority.issue(["DNS:a.test"]);
    const files = { "tollgate.yaml": withEdge(TLS), "edge.pem": cert, "edge.key": key };
    const loaded = await loadFiles(files);
    assert.ok(loaded.ok, told(loaded).join("\n"));
    assert.match(loaded.config.environments[0]?.tls?.cert ?? "", /^\/.*\/edge\.pem$/);
    assert.doesNotMatch(JSON.stringify([loaded, maskedConfig(loaded.config)]), /BEGIN|PRIVATE/);
  });

  it("must go with its key", async () => {
    const [one, two] = [authority.issue(["DNS:a.test"]), authority.issue(["DNS:a.test"])];
    const files = { "tollgate.yaml": withEdge(TLS), "edge.pem": one.cert, "edge.key": two.key };
    const [mistake, ...others] = told(await loadFiles(files));
    assert.match(mistake ?? "", /tls\.key: the key does not belong to the certificate/);
    assert.deepEqual(others, []);
  });

  it("must be whole", async () => {
    const { cert, key } = authority.issue(["DNS:a.test"]);
    const damaged = cert.replace(/\n[A-Za-z0-9+/]{20}/, "\nAAAAAAAAAAAAAAAAAAAA");
    const files = { "tollgate.yaml": withEdge(TLS), "edge.pem": damaged, "edge.key": key };
    assert.match(
      told(await loadFiles(files)).join("\n"),
      /tls\.cert: its certificate 1 is damaged/,
    );
  });

  it("must have a whole chain", async () => {
    const { cert, key } = authority.issue(["DNS:a.test"]);
    const cut = `${cert}${authority.ca.slice(0, 200)}\n`;
    const files = { "tollgate.yaml": withEdge(TLS), "edge.pem": cut, "edge.key": key };
    const [mistake, ...others] = told(await loadFiles(files));
    assert.match(mistake ?? "", /tls\.cert: its certificate 2 is damaged/);
    assert.deepEqual(others, []);
  });

  it("must be one that TLS takes: a key that is too short is a mistake", async () => {
    const { cert, key } = authority.issue(["DNS:a.test"], { weak: true });
    const files = { "tollgate.yaml": withEdge(TLS), "edge.pem": cert, "edge.key": key };
    const [mistake, ...others] = told(await loadFiles(files));
    assert.match(mistake ?? "", /^2:\d+: .*tls\.cert: TLS refuses it \(ERR_SSL_EE_KEY_TOO_SMALL\)/);
    assert.deepEqual(others, []);
  });

  it("can neither come nor go by a reload", async () => {
    const plain = await loadLines("");
    const [environment] = plain.environments;
    assert.ok(environment);
    const tls = { cert: "/a.pem", key: "/a.key" };
    const secure = { ...plain, environments: [{ ...environment, tls }] };
    const renewed = {
      ...plain,
      environments: [{ ...environment, tls: { ...tls, cert: "/b.pem" } }],
    };
    const refusals = (from: typeof plain, to: typeof plain) =>
      reloadBlockers({ from, to }, NO_RECORDS, 0);
    assert.match(refusals(plain, secure).join(), /give tls to environments\.production/);
    assert.match(refusals(secure, plain).join(), /take tls from environments\.production/);
    assert.deepEqual(refusals(secure, renewed), []);
    const beside = { ...environment, name: "staging" };
    const both = { ...plain, environments: [...secure.environments, beside] };
    assert.deepEqual(refusals(both, both), [], "each is compared with itself");
  });

  it("can neither come nor go with another environment on an open listener, which goes on as it is", async () => {
    const listening = ENVIRONMENTS.replace("127.0.0.1:0", "127.0.0.1:8080");
    const before = await loadLines(listening);
    const after = await loadLines(listening.replace("production:", "live:"));
    const secured = (config: typeof after) => {
      const tls = { cert: "/a.pem", key: "/a.key" };
      return { ...config, environments: config.environments.map((one) => ({ ...one, tls })) };
    };
    const refusals = (from: typeof before, to: typeof after) =>
      reloadBlockers(
        { from: { ...from, keys: to.keys, stateFile: to.stateFile }, to },
        NO_RECORDS,
        0,
      );
    assert.match(refusals(before, secured(after)).join(), /^Cannot give tls to environments\.live/);
    assert.match(
      refusals(secured(before), after).join(),
      /^Cannot take tls from environments\.live/,
    );
    assert.deepEqual(refusals(before, after), []);
  });
});

it("a refused configuration names every PEM file, which may be what has to change", async () => {
  const pems = "{ ca: ./ca.pem, cert: ./our.pem, key: ./our.key }";
  const loaded = await loadFiles({ "tollgate.yaml": withEdge(`${TLS}, upstreamTls: ${pems}`) });
  assert.equal(told(loaded).length, 5);
  const folder = dirname(loaded.files[0] ?? "");
  const names = loaded.files.map((file) => relative(folder, file));
  const edge = ["edge.pem", "edge.key"];
  assert.deepEqual(names, ["tollgate.yaml", "ca.pem", ...edge, "our.pem", "our.key"]);
});

it("the name of a file that a variable holds is not told, as it may be a secret", async () => {
  for (const [edge, message] of [
    ["upstreamTls: { ca: NAME }", "Cannot read the file of environments.production.upstreamTls.ca"],
    ["api: NAME", "Cannot read the API description for production"],
  ] as const) {
    const load = (name: string) => {
      const files = { "tollgate.yaml": withEdge(edge.replace("NAME", name)) };
      return loadFiles(files, { WHERE: "hunter2.pem" });
    };
    const [hidden = ""] = told(await load("'$" + "{WHERE}'"));
    assert.ok(hidden.includes(`${message}: there is no such file`), hidden);
    assert.match(told(await load("hunter2.pem")).join(), /\/hunter2\.pem (?:of|for)/);
  }
});

describe("the authorities of upstreams", () => {
  it("are a file of 1 MiB at most", async () => {
    const text = withEdge("upstreamTls: { ca: ./ca.pem }");
    for (const bytes of [1_048_576, 1_048_577]) {
      const ca = authority.ca.padEnd(bytes, "\n");
      const loaded = await loadFiles({ "tollgate.yaml": text, "ca.pem": ca });
      const larger = /ca\.pem of .*upstreamTls\.ca: it is larger than 1048576 bytes/;
      assert.equal(larger.test(told(loaded).join()), bytes > 1_048_576);
      assert.equal(loaded.ok, bytes <= 1_048_576);
    }
  });

  it("are read with the configuration: a save of them reloads, and the hash tells them apart", async () => {
    const text = withEdge("upstreamTls: { ca: ./ca.pem, serverName: pets.internal }");
    const load = (ca: string) => loadFiles({ "tollgate.yaml": text, "ca.pem": ca });
    const one = await load(authority.ca);
    assert.ok(one.ok, told(one).join("\n"));
    const [environment] = one.config.environments;
    const path = environment?.upstreamTls.ca?.path ?? "";
    assert.ok(isAbsolute(path) && path.endsWith("/ca.pem"), path);
    assert.deepEqual(one.files.slice(1), [path]);
    assert.equal(environment?.upstreamTls.ca?.text, authority.ca);
    assert.equal(environment?.upstreamTls.serverName, "pets.internal");
    assert.equal(one.warnings.length, 1, "none of the upstreams is https");
    const two = await load(`${authority.ca}${authority.ca}`);
    assert.ok(two.ok);
    assert.notEqual(one.config.hash, two.config.hash);
    assert.match(
      told(await load("none")).join(),
      /upstreamTls\.ca: it holds no certificate as PEM$/,
    );
  });
});

describe("the certificate that the gateway shows to upstreams", () => {
  it("is read with its key, belongs to it, and neither goes without the other", async () => {
    const ours = authority.issue(["DNS:gateway.test"]);
    const other = authority.issue(["DNS:other.test"]);
    const load = (edge: string, key = ours.key) => {
      const files = { "our.pem": ours.cert, "our.key": key };
      return loadFiles({ "tollgate.yaml": withEdge(`upstreamTls: { ${edge} }`), ...files });
    };
    const both = "cert: ./our.pem, key: ./our.key";
    const good = await load(both);
    assert.ok(good.ok, told(good).join("\n"));
    const [environment] = good.config.environments;
    assert.equal(environment?.upstreamTls.clientCertificate?.cert.text, ours.cert);
    assert.equal(environment?.upstreamTls.clientCertificate?.key.text, ours.key);
    const names = good.files.map((file) => basename(file));
    assert.deepEqual(names, ["tollgate.yaml", "our.pem", "our.key"]);
    const weak = authority.issue(["DNS:gateway.test"], { weak: true });
    const refused = await loadFiles({
      ...{ "tollgate.yaml": withEdge(`upstreamTls: { ${both} }`) },
      ...{ "our.pem": weak.cert, "our.key": weak.key },
    });
    assert.match(told(refused).join("\n"), /upstreamTls\.cert: TLS refuses it \(ERR_SSL_/);
    for (const [edge, key, expected] of [
      ["cert: ./our.pem", ours.key, /upstreamTls\.cert without key/],
      ["key: ./our.key", ours.key, /upstreamTls\.key without cert/],
      [both, other.key, /the key does not belong to the certificate in upstreamTls\.cert/],
      [both, "no key", /upstreamTls\.key: it holds no private key/],
    ] as const) {
      const bad = await load(edge, key);
      assert.equal(bad.ok, false, edge);
      assert.match(told(bad).join("\n"), expected);
    }
  });
});

describe("healthCheck and cors", () => {
  it("are complete once read", async () => {
    const edge =
      'healthCheck: { path: /up }, cors: { origins: ["HTTPS://App.Test:443"], maxAge: 90900ms }';
    const [environment] = (await loadLines(withEdge(edge))).environments;
    assert.deepEqual(environment?.healthCheck, { path: "/up", everyMs: 5_000 });
    assert.deepEqual(environment?.cors, {
      origins: ["https://app.test"],
      methods: ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"],
      headers: ["Authorization", "Content-Type", "X-Request-Id"],
      expose: [],
      credentials: false,
      maxAgeSeconds: 90,
    });
  });

  it("take origins of apps and extensions as they are", async () => {
    const edge = 'cors: { origins: ["capacitor://localhost", "chrome-extension://abcdef"] }';
    const [environment] = (await loadLines(withEdge(edge))).environments;
    assert.deepEqual(environment?.cors?.origins, [
      "capacitor://localhost",
      "chrome-extension://abcdef",
    ]);
  });

  it("warn, at its place, of a * of cors that stands for nothing, and of no other", async () => {
    const warned = async (edge: string) => {
      const text = withEdge(`cors: { ${edge} }`);
      const loaded = await loadFiles({ "tollgate.yaml": text });
      assert.ok(loaded.ok, told(loaded).join("\n"));
      return loaded.warnings.map(({ line, column, message }) => {
        const rest = text.split("\n")[line - 1]?.slice(column - 1);
        return `${rest?.split(/[\],]/)[0]} ${message}`;
      });
    };
    const page = 'origins: ["https://app.test"]';
    const origins = 'origins: ["https://app.test", "https://*.app.test"]';
    assert.deepEqual(await warned(origins), [
      '"https://*.app.test" The origin "https://*.app.test" matches no subdomain: origins are compared whole; name each one',
    ]);
    const stars = 'headers: [X-A, "*"], expose: ["*"]';
    assert.deepEqual(await warned(`${page}, ${stars}, credentials: true`), [
      '"*" Browsers take "*" in headers for a name if credentials are allowed; name each field',
      '"*" Browsers take "*" in expose for a name if credentials are allowed; name each field',
    ]);
    assert.deepEqual(await warned(`${page}, ${stars}`), []);
    assert.deepEqual(await warned(`origins: ["*"], ${stars}`), []);
  });
});

it("a certificate that has ended is a warning at its line, and one that runs is none", async () => {
  const ENDED = /environments\.production\.tls\.cert ended on \d{4}-\d\d-\d\d, so .*; renew it$/;
  for (const expired of [true, false]) {
    const { cert, key } = authority.issue(["DNS:gateway.test"], { expired });
    const files = { "tollgate.yaml": withEdge(TLS), "edge.pem": cert, "edge.key": key };
    const loaded = await loadFiles(files);
    assert.ok(loaded.ok, told(loaded).join("\n"));
    const ended = loaded.warnings.map(({ line, message }) => [line, ENDED.test(message)]);
    assert.deepEqual(ended, expired ? [[2, true]] : []);
  }
});
