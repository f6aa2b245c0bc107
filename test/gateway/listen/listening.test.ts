import assert from "node:assert/strict";
import { rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, it } from "vitest";
import { Certificate } from "../../../src/gateway/runtime/certificate.ts";
import { startTestGateway } from "../../support/gateway/house.ts";
import { freePort } from "../../support/redis/redis.ts";
import { openAuthority } from "../../support/wire/certificates.ts";
import { errorOf, sendRequest } from "../../support/wire/client.ts";

describe("a listener", () => {
  it("at an IPv6 address says so in its URL, and serves there", async () => {
    await using house = await startTestGateway({ environment: { listen: "[::1]:0" } });
    assert.match(house.url, /^http:\/\/\[::1\]:\d+$/);
    const { key } = await house.issue();
    assert.equal((await house.ask(key)).status, 200);
  });

  it("at an IPv6 address that is taken says which, in brackets", async () => {
    await using house = await startTestGateway({ environment: { listen: "[::1]:0" } });
    const address = new URL(house.url).host;
    await assert.rejects(startTestGateway({ environment: { listen: address } }), (error: Error) => {
      assert.ok(error.message.startsWith(`Cannot listen on ${address} (`), error.message);
      assert.match(
        error.message,
        /: the port is in use already\. Stop what listens there or change /,
      );
      return true;
    });
  });

  it("shared by environments judges sizes by the limits of the one that is asked", async () => {
    const listen = `127.0.0.1:${await freePort()}`;
    const shared = { listen, basePath: "/v1", upstreams: ["http://127.0.0.1:9"] };
    const small = { ...shared, keyTag: "live", hosts: ["small.test"], limits: { urlBytes: "60B" } };
    const large = { ...shared, keyTag: "test", hosts: ["large.test"] };
    await using house = await startTestGateway({
      config: { environments: { production: small, staging: large } },
    });
    const path = `/v1/pets?${"x".repeat(100)}`;
    assert.equal(
      errorOf(await sendRequest(house.port, { host: "small.test", path })).code,
      "uri_too_long",
    );
    assert.equal(
      errorOf(await sendRequest(house.port, { host: "large.test", path })).code,
      "key_missing",
    );
  });
});

describe("a certificate on disk", () => {
  it("is taken over after it stayed the same, and kept where the new one cannot be read", async () => {
    using authority = openAuthority();
    await using house = await startTestGateway();
    const files = { cert: join(house.directory, "a.pem"), key: join(house.directory, "a.key") };
    const write = async () => {
      const { cert, key } = authority.issue(["DNS:a.test"]);
      await writeFile(files.cert, cert);
      await writeFile(files.key, key);
    };
    await write();
    const certificate = new Certificate(files);
    const first = certificate.context;
    assert.equal(certificate.reloadIfChanged(), "same");
    await write();
    assert.equal(certificate.reloadIfChanged(), "same", "it may still be changing");
    assert.equal(certificate.context, first);
    assert.equal(certificate.reloadIfChanged(), "new");
    assert.notEqual(certificate.context, first);
    const second = certificate.context;
    await rm(files.key);
    assert.equal(certificate.reloadIfChanged(), "same");
    const why = certificate.reloadIfChanged();
    assert.deepEqual(why, { why: `cannot read ${files.key}: the system says ENOENT` });
    assert.equal(certificate.context, second);
  });
});
