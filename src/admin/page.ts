/**
 * A list of everything that the listener has, for people who open it in a browser: plain, without
 * script or style.
 */
export const PAGE = `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Tollgate</title>
<h1>Tollgate</h1>
<p>This is the admin listener of an API gateway. Nothing here answers on a public listener.</p>
<h2>Open to all who can reach this port</h2>
<ul>
<li><a href="/livez">/livez</a> whether the process lives; it looks at nothing else
<li><a href="/readyz">/readyz</a> whether it should get traffic, and if not, why
<li><a href="/metrics">/metrics</a> counters for Prometheus
</ul>
<h2>With the admin token, where one is set</h2>
<p>Send <code>Authorization: Bearer &lt;admin token&gt;</code>. What writes is sent as
<code>application/json</code>. An ID is an account or one of its keys.
<ul>
<li><a href="/api/keys">GET /api/keys</a> every key, without its secret
<li>POST /api/keys issues keys: environment, plan; name, account, expires, limits, scopes, count
<li>GET /api/keys/ID one key, or the keys of one account
<li>POST /api/keys/ID/rotate puts a new key in place of an old one, which works on for the grace
<li>POST /api/keys/ID/revoke ends a key
<li><a href="/api/bans">GET /api/bans</a> the bans in force
<li>DELETE /api/bans/ID lifts a ban
<li>GET /api/usage/ID what an account has used, and what is left
<li><a href="/api/config">GET /api/config</a> the configuration in force, secrets masked
<li>POST /api/reload reads the configuration again
</ul>
</html>
`;
