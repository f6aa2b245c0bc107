import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

export type Pair = { readonly cert: string; readonly key: string };

/** `weak`: of an RSA key of 1,024 bits, which TLS libraries refuse since OpenSSL 3. */
type Issued = { readonly expired?: boolean; readonly weak?: boolean };

export type Authority = Disposable & {
  /** The authority's own certificate: what a client trusts. */
  readonly ca: string;
  readonly caFile: string;
  readonly folder: string;
  /** A certificate for these names and addresses ("DNS:a.test", "IP:127.0.0.1"), as PEM. */
  issue(names: readonly string[], more?: Issued): Pair;
};

/** An authority of certificates in a folder of its own, made by openssl; disposing removes it. */
export function openAuthority(): Authority {
  const folder = mkdtempSync(join(tmpdir(), "tollgate-ca-"));
  const at = (name: string) => join(folder, name);
  const openssl = (...args: string[]) => execFileSync("openssl", args, { stdio: "pipe" });
  const ec = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"];
  openssl(
    ...["req", "-x509", ...ec, "-keyout", at("ca.key"), "-out", at("ca.pem"), "-days", "2"],
    ...["-subj", "/CN=test authority"],
  );
  let count = 0;
  return {
    ca: readFileSync(at("ca.pem"), "utf8"),
    caFile: at("ca.pem"),
    folder,
    issue: (names, { expired = false, weak = false } = {}) => {
      count += 1;
      const [key, request, cert, extensions] = ["key", "csr", "pem", "ext"].map((ending) => {
        return at(`${count}.${ending}`);
      }) as [string, string, string, string];
      writeFileSync(extensions, `subjectAltName=${names.join(",")}\n`);
      const kind = weak ? ["-newkey", "rsa:1024", "-nodes"] : ec;
      openssl("req", ...kind, "-keyout", key, "-out", request, "-subj", `/CN=leaf ${count}`);
      const until = expired
        ? ["-not_before", "20200101000000Z", "-not_after", "20200102000000Z"]
        : ["-days", "2"];
      const days = expired && !takesDates() ? ["-days", "-1"] : until;
      openssl(
        ...["x509", "-req", "-in", request, "-CA", at("ca.pem"), "-CAkey", at("ca.key")],
        ...["-CAcreateserial", "-out", cert, "-extfile", extensions, ...days],
      );
      return { cert: readFileSync(cert, "utf8"), key: readFileSync(key, "utf8") };
    },
    [Symbol.dispose]: () => rmSync(folder, { recursive: true, force: true }),
  };
}

/** OpenSSL 3.4 and later; before, a negative number of days did. */
function takesDates(): boolean {
  const [, major = "0", minor = "0"] =
    /OpenSSL (\d+)\.(\d+)/.exec(String(execFileSync("openssl", ["version"]))) ?? [];
  return Number(major) > 3 || (Number(major) === 3 && Number(minor) >= 4);
}
