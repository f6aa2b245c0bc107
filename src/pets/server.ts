import type { IncomingMessage } from "node:http";
import type { AddressInfo } from "node:net";
import { MIMEType } from "node:util";
import { type FastifyInstance, type FastifyReply, type FastifyRequest, fastify } from "fastify";
import { encodePage, parsePageQuery } from "./page.ts";
import { encodePet, type NewPet, parseInt64, parseNewPet } from "./pet.ts";
import { type Problem, quoted } from "./problem.ts";
import { sendExpectationFailed, sendJson, sendProblem, writeProblemToSocket } from "./reply.ts";
import { openPets, type PetStore } from "./store.ts";

const BODY_BYTES_MAX = 64 * 1024;
/** The most bytes read of a body that is too long, so that the client receives the 413. */
const DISCARD_BYTES_MAX = 16 * 1024 * 1024;
const DRAIN_MS = 5_000;

/** The animals of a new table, if seeding was requested. */
const SEED: readonly NewPet[] = [
  { name: "Ada", categoryId: 1n, status: "available" },
  { name: "Bruno", categoryId: 1n, status: "pending" },
  { name: "Clementine", categoryId: 2n, status: "available" },
  { name: "Dot", categoryId: 3n, status: "sold" },
  { name: "Edgar", categoryId: 3n },
];

export type PetsOptions = {
  readonly host: string;
  /** Port 0 asks for any free port. */
  readonly port: number;
  /** An SQLite file. Without one the animals are kept in memory. */
  readonly dataFile?: string;
  /** Adds a few animals if, and only if, the table is new. */
  readonly seed?: boolean;
  /** Called for every error that was answered with 500. The client learns nothing of it. */
  readonly onError?: (error: unknown) => void;
};

export type RunningPets = {
  readonly url: string;
  readonly port: number;
  /** Serves requests in progress for at most 5 s, then closes connections and the file. */
  stop(): Promise<void>;
};

/**
 * Serves the operations of config/pets.openapi.yaml under `/v1`, and `GET /healthz`. Rejects if the
 * data file is refused (store.ts) or the address cannot be listened on (with the system's own
 * error).
 */
export async function startPets(options: PetsOptions): Promise<RunningPets> {
  const { host, port, dataFile, seed = false, onError = () => {} } = options;
  const store = openPets(dataFile, seed ? SEED : []);
  const app = serverOver(store, onError);
  try {
    const url = await app.listen({ host, port });
    let stopped: Promise<void> | undefined;
    return {
      url,
      port: (app.server.address() as AddressInfo).port,
      stop: () => {
        stopped ??= drain(app);
        return stopped;
      },
    };
  } catch (cause) {
    await app.close();
    throw cause;
  }
}

async function drain(app: FastifyInstance): Promise<void> {
  const late = setTimeout(() => app.server.closeAllConnections(), DRAIN_MS);
  await app.close();
  clearTimeout(late);
}

function serverOver(store: PetStore, onError: (error: unknown) => void): FastifyInstance {
  let draining = false;
  const app = fastify({
    logger: false,
    // A missing Host and an unknown Expect are refused in the Error shape, like all else.
    http: { requireHostHeader: false },
    // This is longer than any proxy in front keeps an idle connection. The proxy should close
    // first, because a request that crosses this server's close on the wire is lost.
    keepAliveTimeout: 65_000,
    requestTimeout: 60_000,
    exposeHeadRoutes: true,
    // Fastify's 503 does not have the Error shape, so requests that arrive during the drain are
    // served instead.
    return503OnClosing: false,
    routerOptions: { maxParamLength: BODY_BYTES_MAX },
    frameworkErrors: (_error, _request, reply) => {
      sendProblem(reply, {
        code: "invalid_request",
        message: "The path is not a well-formed URL path",
      });
    },
    clientErrorHandler: writeProblemToSocket,
  });

  app.removeAllContentTypeParsers();
  app.addContentTypeParser("application/json", async (_request: unknown, body: IncomingMessage) =>
    readBody(body),
  );
  app.server.on("checkExpectation", sendExpectationFailed);
  app.addHook("onRequest", (request, reply, done) => {
    const { headers, httpVersion } = request.raw;
    if (headers.host === undefined && httpVersion === "1.1") {
      reply.header("connection", "close");
      sendProblem(reply, { code: "invalid_request", message: "A request needs a Host field" });
    } else if (request.is404) sayWhyNot(request, reply);
    else done();
  });
  app.addHook("onSend", (_request, reply, _payload, done) => {
    if (draining) reply.header("connection", "close");
    done();
  });
  app.addHook("preClose", async () => {
    draining = true;
  });
  app.addHook("onClose", async () => store.close());
  app.setErrorHandler((error: { code?: string }, _request, reply) => {
    if (error.code === "FST_ERR_CTP_INVALID_MEDIA_TYPE") return sendProblem(reply, NOT_JSON);
    // A client that left in the middle of its body is no failure of the server.
    if (error.code !== "ECONNRESET") onError(error);
    return sendProblem(reply, { code: "internal_error", message: "Something went wrong here" });
  });
  addRoutes(app, store);
  return app;
}

function addRoutes(app: FastifyInstance, store: PetStore): void {
  app.get("/healthz", (_request, reply) => sendJson(reply, 200, '{"status":"ok"}'));

  app.get<{ Querystring: Record<string, unknown> }>("/v1/pets", (request, reply) => {
    const page = parsePageQuery(request.query);
    if (!page.ok) return sendProblem(reply, page.problem);
    const { body, link } = encodePage(page.value, store.find(page.value));
    if (link !== undefined) reply.header("link", link);
    return sendJson(reply, 200, body);
  });

  app.post("/v1/pets", { onRequest: refuseOtherMedia }, (request, reply) => {
    const body = request.body as Buffer | "too long" | undefined;
    if (body === "too long") {
      if (!request.raw.complete) reply.header("connection", "close");
      return sendProblem(reply, TOO_LONG);
    }
    const wanted = parseNewPet(body ?? Buffer.alloc(0));
    if (!wanted.ok) return sendProblem(reply, wanted.problem);
    const pet = store.add(wanted.value);
    reply.header("location", `/v1/pets/${pet.id}`);
    return sendJson(reply, 201, encodePet(pet));
  });

  app.get<{ Params: { petId: string } }>("/v1/pets/:petId", (request, reply) => {
    const { petId } = request.params;
    if (petId === "") return sendProblem(reply, NOT_FOUND);
    const id = parseInt64(petId);
    if (id === undefined) {
      const message = `petId must be an int64 in plain decimal: found ${quoted(petId)}`;
      return sendProblem(reply, { code: "invalid_parameter", message });
    }
    const pet = store.get(id);
    if (pet === undefined) {
      return sendProblem(reply, {
        code: "not_found",
        message: `There is no animal with the id ${id}`,
      });
    }
    return sendJson(reply, 200, encodePet(pet));
  });
}

const NOT_FOUND: Problem = { code: "not_found", message: "There is no such resource" };
const NOT_JSON: Problem = {
  code: "unsupported_media_type",
  message: "Send the body as Content-Type: application/json, in UTF-8, without Content-Encoding",
};
const TOO_LONG: Problem = {
  code: "body_too_large",
  message: `The body is larger than ${BODY_BYTES_MAX} bytes`,
};

/** The framework refuses a body without Content-Type. A missing body counts as an empty one. */
function refuseOtherMedia(request: FastifyRequest, reply: FastifyReply, done: () => void): void {
  const { "content-type": type, "content-encoding": coding = "identity" } = request.headers;
  if (coding.toLowerCase() === "identity" && (type === undefined || isJson(type))) done();
  else sendProblem(reply, NOT_JSON);
}

function isJson(type: string): boolean {
  try {
    const { essence, params } = new MIMEType(type);
    const charset = params.get("charset") ?? "utf-8";
    return essence === "application/json" && charset.toLowerCase() === "utf-8";
  } catch {
    return false;
  }
}

/**
 * Reads to the end even if the body is too long, because an early close could discard the response.
 */
async function readBody(body: IncomingMessage): Promise<Buffer | "too long"> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of body as AsyncIterable<Buffer>) {
    bytes += chunk.length;
    if (bytes <= BODY_BYTES_MAX) chunks.push(chunk);
    if (bytes > DISCARD_BYTES_MAX) break;
  }
  return bytes <= BODY_BYTES_MAX ? Buffer.concat(chunks, bytes) : "too long";
}

/**
 * Refuses an unknown path with 404, and another method of a known path with 405 and Allow (RFC 9110
 * 15.5.6).
 */
function sayWhyNot(request: FastifyRequest, reply: FastifyReply): void {
  // The router has the path in this form, and has refused it if it cannot be decoded.
  const path = decodeURI(request.url.split(/[?#]/, 1)[0] ?? "");
  const allow = allowOf(path);
  if (allow === undefined) {
    sendProblem(reply, NOT_FOUND);
    return;
  }
  reply.header("allow", allow);
  sendProblem(reply, { code: "method_not_allowed", message: `Only ${allow} are allowed here` });
}

function allowOf(path: string): string | undefined {
  if (path === "/v1/pets") return "GET, HEAD, POST";
  return path === "/healthz" || /^\/v1\/pets\/[^/]+$/.test(path) ? "GET, HEAD" : undefined;
}
