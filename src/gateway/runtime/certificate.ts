import { constants, createPrivateKey, X509Certificate } from "node:crypto";
import { readFileSync, statSync } from "node:fs";
import { createSecureContext, type SecureContext, type SecureContextOptions } from "node:tls";
import type { CertificateFiles, CertificateInForce } from "../../config/config.ts";

/** The outcome of a check of the files. `why` is for the log and quotes nothing from the files. */
type CertificateReload = "same" | "new" | { readonly why: string };

type Pair = {
  readonly texts: Pick<CertificateInForce, "cert" | "key">;
  readonly options: SecureContextOptions;
  readonly context: SecureContext;
  readonly endsMs: number;
};

/**
 * The certificate and key of a listener, read again when their files change. Both change together
 * or not at all: if the new pair is broken or does not match, the old one stays in force.
 */
export class Certificate {
  readonly files: CertificateFiles;
  #pair: Pair;
  #print: string;
  /** A change is over when two checks in a row find the same files. */
  #changing: string | undefined;

  /**
   * Throws a readable error if the files cannot be used. Reads synchronously: two small files. If a
   * pair is in force already, it is used, and the files only when they change.
   */
  constructor(files: CertificateFiles) {
    const { inForce } = files;
    this.files = files;
    this.#print = inForce?.print ?? printOf(files);
    this.#pair = inForce === undefined ? readPair(files) : pairOf(inForce, files);
  }

  /** The pair in force, for another process. It includes the private key. */
  get inForce(): CertificateInForce {
    return { ...this.#pair.texts, print: this.#print };
  }

  /** Whether it is that of these files. */
  isOf({ cert, key }: Pick<CertificateFiles, "cert" | "key">): boolean {
    return this.files.cert === cert && this.files.key === key;
  }

  /** When the first of the file's certificates ends, in Unix milliseconds. */
  get endsMs(): number {
    return this.#pair.endsMs;
  }

  get context(): SecureContext {
    return this.#pair.context;
  }

  /** The parts, for a server that needs them. They include the private key. */
  get options(): SecureContextOptions {
    return this.#pair.options;
  }

  /** Called about twice a second. A change takes effect at the second check that sees it. */
  reloadIfChanged(): CertificateReload {
    const whole = printOf(this.files, "whole");
    const part = printOf(this.files);
    const print = this.#print.startsWith(REFUSED) ? whole : part;
    if (print === this.#print) {
      this.#changing = undefined;
      return "same";
    }
    if (print !== this.#changing) {
      this.#changing = print;
      return "same";
    }
    try {
      this.#pair = readPair(this.files);
      this.#print = part;
      return "new";
    } catch (error) {
      this.#print = whole;
      return { why: (error as Error).message };
    }
  }
}

/**
 * Only TLS 1.2 and later, AEAD ciphers and forward secrecy. Renegotiation is off
 * (docs/reference/edge.md#tls).
 */
const SECURE: SecureContextOptions = {
  minVersion: "TLSv1.2",
  secureOptions: constants.SSL_OP_NO_RENEGOTIATION,
  ciphers: [
    ...["TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256"],
    ...["ECDHE-ECDSA-AES128-GCM-SHA256", "ECDHE-RSA-AES128-GCM-SHA256"],
    ...["ECDHE-ECDSA-AES256-GCM-SHA384", "ECDHE-RSA-AES256-GCM-SHA384"],
    ...["ECDHE-ECDSA-CHACHA20-POLY1305", "ECDHE-RSA-CHACHA20-POLY1305"],
  ].join(":"),
};

function readPair(files: CertificateFiles): Pair {
  return pairOf({ cert: readText(files.cert), key: readText(files.key) }, files);
}

function pairOf(pems: Pair["texts"], { cert, key }: CertificateFiles): Pair {
  const texts = { cert: pems.cert, key: pems.key };
  const x509 = attempt(() => new X509Certificate(texts.cert), `no certificate as PEM in ${cert}`);
  const privateKey = attempt(() => createPrivateKey(texts.key), `no private key as PEM in ${key}`);
  if (!x509.checkPrivateKey(privateKey)) {
    throw new Error(`the key in ${key} does not belong to the certificate in ${cert}`);
  }
  const options: SecureContextOptions = { ...texts, ...SECURE };
  const context = attempt(() => createSecureContext(options), `${cert} and ${key} make no TLS`);
  const endsMs = attempt(() => certificateEndMs(texts.cert), `a damaged certificate in ${cert}`);
  return { texts, options, context, endsMs };
}

const CERTIFICATE = /-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/g;

/** When the first of the certificates in a PEM text ends, in Unix milliseconds. */
export function certificateEndMs(pem: string): number {
  const each = [...pem.matchAll(CERTIFICATE)].map(([one]) => new X509Certificate(one));
  return Math.min(...each.map(({ validToDate }) => validToDate.getTime()));
}

function readText(file: string): string {
  try {
    return readFileSync(file, "utf8");
  } catch (error) {
    throw new Error(
      `cannot read ${file}: the system says ${(error as NodeJS.ErrnoException).code}`,
    );
  }
}

/** Replaces the library's error text, because it may quote the file that it read. */
function attempt<T>(make: () => T, why: string): T {
  try {
    return make();
  } catch {
    throw new Error(why);
  }
}

/** The start of a whole print: the last reading failed. */
const REFUSED = "refused ";

/** A whole print changes with the rights of a file too: these may be why it was refused. */
function printOf({ cert, key }: CertificateFiles, extent?: "whole"): string {
  const isWhole = extent === "whole";
  const prints = [cert, key].map((file) => printOfFile(file, isWhole)).join(", ");
  return isWhole ? REFUSED + prints : prints;
}

/** A file that cannot be examined has a print as well, because reading it then tells the reason. */
function printOfFile(file: string, isWhole: boolean): string {
  try {
    const { ino, size, mtimeNs, ctimeNs } = statSync(file, { bigint: true });
    return `${ino} ${size} ${mtimeNs}${isWhole ? ` ${ctimeNs}` : ""}`;
  } catch (error) {
    return String((error as NodeJS.ErrnoException).code);
  }
}
