-- Prints random objects of every kind in docs/argocd/health.lua, each with its health: STATUS, a tab and JSON.
local check = assert(loadfile(arg[1]))
math.randomseed(tonumber(arg[2]))
obj = nil
local rows = check().rows

local function quoted(text)
  return '"' .. text:gsub('[\\"]', "\\%0") .. '"'
end

local function json(value)
  if type(value) == "string" then
    return quoted(value)
  elseif type(value) ~= "table" then
    return tostring(value)
  end
  local parts = {}
  if #value > 0 then
    for _, it in ipairs(value) do
      table.insert(parts, json(it))
    end
    return "[" .. table.concat(parts, ",") .. "]"
  end
  for key, it in pairs(value) do
    table.insert(parts, quoted(key) .. ":" .. json(it))
  end
  table.sort(parts)
  return "{" .. table.concat(parts, ",") .. "}"
end

local function any(list)
  return list[math.random(#list)]
end

local function chance(of)
  return math.random(of) == 1
end

local function set(object, path, value)
  local name, rest = path:match("^([^.]+)%.?(.*)$")
  local list = name:match("^(.*)%[%]$")
  if rest == "" then
    object[name] = value
  elseif list then
    object[list] = object[list] or { {}, {} }
    for _, item in ipairs(object[list]) do
      set(item, rest, value)
    end
  else
    object[name] = object[name] or {}
    set(object[name], rest, value)
  end
end

local function condition(kind, generation)
  local made = { type = kind, status = any({ "True", "True", "True", "False", "Unknown" }) }
  if chance(4) then
    made.reason = any({ "Creating", "ReconcilePaused", "RequiresApproval", "RolloutAborted", "ProgressDeadlineExceeded", "Other" })
  end
  if chance(5) then
    made.observedGeneration = generation - math.random(0, 1)
  end
  return made
end

local kinds = {}
for _, row in ipairs(rows) do
  for _, kind in ipairs(#row.kinds > 0 and row.kinds or { "Thing" }) do
    table.insert(kinds, { row = row, kind = kind })
  end
end
for _ = 1, 20 do
  table.insert(kinds, { row = { groups = { "example.com" }, words = {}, required = {}, counters = { wanted = "spec.replicas",
    required = {}, counted = { "status.readyReplicas", "status.updatedReplicas" } } }, kind = "Thing" })
end

for index, it in ipairs(kinds) do
  local row = it.row
  for round = 1, 30 do
    local generation = math.random(1, 2)
    local group = any(row.groups):gsub("^%*", "x")
    local object = {
      apiVersion = group .. "/v1",
      kind = it.kind,
      metadata = { name = "o-" .. index .. "-" .. round, namespace = "shop", uid = "u-" .. index .. "-" .. round, resourceVersion = "1",
        generation = generation },
      status = { x = 1 },
    }
    if chance(3) then
      object.status.observedGeneration = generation - (chance(6) and 1 or 0)
    end
    local names = { "Ready", "Synced", "Progressing", "Stalled", "Reconciling", "Paused", "Available", "NotReady",
      "Degraded", "Failing" }
    for _, list in ipairs({ row.counted or {}, row.paused or {}, row.bad or {}, row.fails_when_false or {}, row.busy or {} }) do
      for _, kind in ipairs(list) do
        table.insert(names, kind)
      end
    end
    local conditions = {}
    for _, alternatives in ipairs(row.required) do
      if not chance(8) then
        table.insert(conditions, condition(any(alternatives), generation))
      end
    end
    local seen = {}
    for _, it in ipairs(conditions) do
      seen[it.type] = true
    end
    for _, kind in ipairs(names) do
      if chance(#names * 2) and not seen[kind] then
        seen[kind] = true
        table.insert(conditions, condition(kind, generation))
      end
    end
    if #conditions > 0 then
      object.status.conditions = conditions
    end
    for _, word in ipairs(row.words) do
      local values = { "odd" }
      for _ = 1, 3 do
        for _, list in ipairs({ word.good or {}, word.good or {}, word.busy or {}, word.paused or {}, word.failed or {} }) do
          for _, value in ipairs(list) do
            table.insert(values, value)
          end
        end
      end
      if not chance(8) then
        set(object, word.path, any(values))
      end
    end
    if chance(2) and row.counters.wanted ~= "" then
      set(object, row.counters.wanted, 2)
      for _, list in ipairs({ row.counters.required, row.counters.counted }) do
        for _, path in ipairs(list) do
          if not chance(4) then
            set(object, path, chance(5) and 1 or 2)
          end
        end
      end
    end
    if row.nested then
      local nested = row.nested
      -- Few values, so that items of the spec and of the status often belong together.
      local function reference()
        local made = {}
        for _, it in ipairs(nested.key) do
          local field, default, alias, name = it[1], it[2], it[3], it[4]
          if not chance(4) then
            local values = { "x", "x", "x", default, "" }
            if alias ~= "" then
              values = { alias, name, default }
            elseif field == "namespace" then
              values = { "shop", "shop", "gw", "" }
            elseif default ~= "" then
              values = { default, default, "Service" }
            elseif field == "port" then
              values = { 80, 80, 443 }
            end
            made[field] = any(values)
          end
        end
        return made
      end
      local function conditions_of_item()
        local inner = {}
        for _, kind in ipairs(nested.required) do
          if not chance(6) then
            table.insert(inner, condition(kind, generation))
          end
        end
        for _, kind in ipairs(nested.counted) do
          if chance(2) then
            table.insert(inner, condition(kind, generation))
          end
        end
        for _, kind in ipairs(nested.unwanted) do
          if chance(6) then
            table.insert(inner, condition(kind, generation))
          end
        end
        return inner
      end
      local all_wanted, items = {}, {}
      for _ = 1, math.random(0, 2) do
        local wanted = reference()
        table.insert(all_wanted, wanted)
        for _ = 1, math.random(0, 2) do
          local refers = chance(6) and reference() or wanted
          local item = {}
          if nested.reference ~= "" then
            item[nested.reference] = refers
          else
            for field, value in pairs(refers) do
              item[field] = value
            end
          end
          local inner = conditions_of_item()
          if #inner > 0 then
            item.conditions = inner
          end
          table.insert(items, item)
        end
      end
      if #all_wanted > 0 then
        set(object, nested.wanted, all_wanted)
      end
      if #items > 0 then
        set(object, nested.path, items)
      end
      if nested.implied_by ~= "" and chance(4) then
        set(object, nested.implied_by, any({ "All", "None" }))
      end
    end
    if chance(15) then
      set(object, "spec.suspend", true)
    end
    if row.handled and chance(3) then
      object.metadata.annotations = { [row.handled[1]] = "1" }
      if not chance(3) then
        set(object, row.handled[2], any({ "1", "1", "0" }))
      end
    end
    for _, field in ipairs(row.requests or {}) do
      if chance(6) then
        object[field] = { x = 1 }
      end
    end
    for _, word in ipairs(row.words) do
      for _, path in ipairs(word.about or {}) do
        if not chance(4) then
          set(object, path, any({ "r1", "r2" }))
        end
      end
    end
    obj = object
    print(check().status .. "\t" .. json(object))
  end
end
