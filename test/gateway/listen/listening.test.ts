import assert from "node:assert/strict";
import { lookup } from "node:dns/promises";
import { chmod, rm, utimes, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, it } from "vitest";
import { formatHostPort } from "../../../src/core/address.ts";
import { listenError } from "../../../src/gateway/listen/listen-error.ts";
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

  it("at an address that this machine does not have says so, and names the setting", async () => {
    const started = startTestGateway({ environment: { listen: "203.0.113.1:0" } });
    const why = "this machine has no such address (EADDRNOTAVAIL)";
    const place = "Cannot listen on 203.0.113.1:0 (environments.production.listen)";
    const advice = "Name one that it has in environments.production.listen";
    await assert.rejects(started, { message: `${place}: ${why}. ${advice}` });
  });

  it("at a port that only other users may use says what lets this one, and any other code as it is", () => {
    const listen = { host: "127.0.0.1", port: 80 };
    const told = (code: string) => {
      const error = Object.assign(new Error(`listen ${code}`), { code });
      return listenError(error, listen, "admin.listen", { environments: [], admin: undefined })
        .message;
    };
    const place = "Cannot listen on 127.0.0.1:80 (admin.listen)";
    const advice = "Give the process CAP_NET_BIND_SERVICE, or name a port from 1024 on";
    const why = "this user may not use the port (EACCES)";
    assert.equal(told("EACCES"), `${place}: ${why}. ${advice} in admin.listen`);
    const more = "Raise their limit (ulimit -n)";
    assert.equal(told("EMFILE"), `${place}: too many open files (EMFILE). ${more}`);
    assert.equal(told("ENFILE"), `${place}: the system has too many open files (ENFILE). ${more}`);
    assert.equal(told("EINVAL"), `${place}: listen EINVAL. Change admin.listen`);
  });

  it("whose certificate was refused reads it again when rights alone changed, and says the same mistake once", async () => {
    using authority = openAuthority();
    const cert = join(authority.folder, "rights.pem");
    const key = join(authority.folder, "rights.key");
    const pair = authority.issue(["DNS:a.test"]);
    await Promise.all([writeFile(cert, pair.cert), writeFile(key, pair.key)]);
    const certificate = new Certificate({ cert, key });
    const looks = () => [certificate.reloadIfChanged(), certificate.reloadIfChanged()];
    await chmod(key, 0o640);
    assert.deepEqual(looks(), ["same", "same"]);
    await writeFile(key, pair.key.replaceAll(/[A-Z]/g, "x"));
    const stamp = new Date(1_700_000_000_000);
    await utimes(key, stamp, stamp);
    assert.equal(typeof looks()[1], "object");
    assert.deepEqual(looks(), ["same", "same"]);
    await writeFile(key, pair.key);
    await utimes(key, stamp, stamp);
    assert.deepEqual(looks(), ["same", "new"]);
    await chmod(key, 0o600);
    assert.deepEqual(looks(), ["same", "same"]);
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

  it("whose name is an address that the same file has elsewhere names the setting there, and another program's port does not", async () => {
    const port = await freePort();
    const { address: host } = await lookup("localhost");
    const listen = formatHostPort({ host, port });
    const production = { basePath: "/v1", keyTag: "live", upstreams: ["http://127.0.0.1:9"] };
    const staging = { ...production, keyTag: "test", listen };
    const named = { ...production, listen: `localhost:${port}` };
    const admin = { listen };
    const other = { listen: "127.0.0.1:0" };
    await using taken = await startTestGateway();
    const elsewhere = { ...staging, listen: new URL(taken.url).host };
    const told: string[] = [];
    for (const config of [
      { environments: { production: named, staging }, admin: other },
      { environments: { production: named }, admin },
      { environments: { production: named, staging: elsewhere }, admin: other },
    ]) {
      const failed = await startTestGateway({ config }).catch((error: Error) => error.message);
      told.push(/: (the port is in use already.*?)\. Stop/.exec(`${failed}`)?.[1] ?? `${failed}`);
    }
    const used = "the port is in use already";
    const here = `${used}, and environments.production.listen of this file may be the same address`;
    assert.deepEqual(told, [here, here, used]);
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
