import assert from "node:assert/strict";
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
});

describe("the authorities of upstreams", () => {
  it("are read with the configuration: a save of them reloads, and the hash tells them apart", async () => {
    const text = withEdge("upstreamTls: { ca: ./ca.pem, serverName: pets.internal }");
    const load = (ca: string) => loadFiles({ "tollgate.yaml": text, "ca.pem": ca });
    const one = await load(authority.ca);
    assert.ok(one.ok, told(one).join("\n"));
    assert.equal(one.files.filter((file) => file.endsWith("/ca.pem")).length, 1);
    const [environment] = one.config.environments;
    assert.equal(environment?.upstreamTls.ca?.text, authority.ca);
    assert.equal(environment?.upstreamTls.serverName, "pets.internal");
    assert.equal(one.warnings.length, 1, "none of the upstreams is https");
    const two = await load(`${authority.ca}${authority.ca}`);
    assert.ok(two.ok);
    assert.notEqual(one.config.hash, two.config.hash);
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
    assert.equal(good.files.filter((file) => /\/our\.(?:pem|key)$/.test(file)).length, 2);
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
